package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
)

// twoApps serves the example's two apps, which share their policies, from fresh budgets.
func twoApps(t *testing.T) (ginURL, echoURL string) {
	t.Helper()
	shared, closeStore, err := sharedOptions("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeStore)
	p, tg := newPolicies(shared), new(guard.TrafficGuard)
	ginApp, echoApp := httptest.NewServer(newGin(tg, p)), httptest.NewServer(newEcho(tg, p))
	t.Cleanup(ginApp.Close)
	t.Cleanup(echoApp.Close)
	return ginApp.URL, echoApp.URL
}

func send(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// TestRoutesHoldTheirLimitsOverBothApps sends each request to the two apps in turn.
func TestRoutesHoldTheirLimitsOverBothApps(t *testing.T) {
	for _, tc := range []struct {
		name, method, path, body string
		headers                  []string
		admits                   int
		then                     int // the status after that; 0: still admitted
	}{
		{"health", "GET", "/healthz", "", nil, 50, 0},
		{"posts, user", "GET", "/posts/1", "", []string{"X-User-Id", "ann"}, 100, 429},
		{"posts, nobody", "GET", "/posts/1", "", nil, 30, 429},
		{"posts, admin", "GET", "/posts/1", "", []string{"X-User-Role", "ADMIN"}, 150, 0},
		{"orders by header", "POST", "/orders", "", []string{"X-User-Id", "ann"}, 2, 429},
		{"orders by body", "POST", "/orders", `{"userId":"bob"}`, nil, 2, 429},
		{"payments", "POST", "/payments", `{"userId":"ann"}`, nil, 1, 429},
		{"payments, header only", "POST", "/payments", "", []string{"X-User-Id", "ann"}, 0, 401},
		{"items", "GET", "/items", "", []string{"X-User-Id", "ann"}, 10, 429},
		{"items, nobody", "GET", "/items", "", nil, 0, 401},
		{"reports", "POST", "/reports/export", "", []string{"X-User-Id", "ann"}, 2, 429},
		{"echo", "POST", "/echo", `{"user":{"id":"ann"}}`, nil, 50, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ginURL, echoURL := twoApps(t)
			begin := time.Now()
			served := 0
			var last int
			for i := range tc.admits + 1 {
				url := ginURL
				if i%2 == 1 {
					url = echoURL
				}
				if last, _ = send(t, tc.method, url+tc.path, tc.body, tc.headers...); last == 200 {
					served++
				}
			}
			// The quotas of a second or less may refill while a slow machine sends.
			if tc.then != 0 && last == 200 && time.Since(begin) < 100*time.Millisecond || tc.then == 0 && last != 200 {
				t.Errorf("after %d requests the next got %d, want %d", tc.admits, last, tc.then)
			}
			if served < tc.admits {
				t.Errorf("%d requests were served, want %d at least", served, tc.admits)
			}
			if tc.then != 0 && last != 200 && last != tc.then {
				t.Errorf("refused with %d, want %d", last, tc.then)
			}
		})
	}
}

func TestOneUserHasOneOrderBudgetHoweverNamed(t *testing.T) {
	ginURL, echoURL := twoApps(t)
	var got []int
	for _, r := range []func() (int, string){
		func() (int, string) { return send(t, "POST", ginURL+"/orders", "", "X-User-Id", "ann") },
		func() (int, string) { return send(t, "POST", echoURL+"/orders", `{"userId":"ann"}`) },
		func() (int, string) { return send(t, "POST", ginURL+"/orders", `{"userId":"ann"}`) },
	} {
		status, _ := r()
		got = append(got, status)
	}
	if !slices.Equal(got, []int{200, 200, 429}) {
		t.Errorf("ann by header, by body, by body: %v, want 200 200 429", got)
	}
}

func TestEchoAnswersWithTheBytesItRead(t *testing.T) {
	ginURL, echoURL := twoApps(t)
	const body = " {\"user\": {\"id\": \"ann\"}, \"x\":\t[1, 2.50, \"\u00e9\"]}\n"
	for _, url := range []string{ginURL, echoURL} {
		if status, got := send(t, "POST", url+"/echo", body); status != 200 || got != body {
			t.Errorf("%d %q, want 200 %q", status, got, body)
		}
	}
}

// TestProgram builds and runs the program as a person would, and stops it with Ctrl-C.
func TestProgram(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "example")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-gin", "127.0.0.1:0", "-echo", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	var text strings.Builder
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Ctrl-C") {
		text.WriteString(lines.Text() + "\n")
	}
	urls := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindAllString(text.String(), 2)
	if len(urls) != 2 || strings.Count(text.String(), "  curl ") != 3 || !strings.Contains(text.String(), "/reports/export") {
		t.Errorf("the program does not say where it listens, what its routes are and what to try:\n%s", text.String())
	} else {
		for _, url := range urls {
			if status, _ := send(t, "GET", url+"/healthz", ""); status != 200 {
				t.Errorf("%s: %d", url, status)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("stopped by Ctrl-C: %v", err)
	}
}
