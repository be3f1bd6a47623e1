package guardtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
)

var streamCases = []adapterCase{
	{
		"flush",
		"what the handler flushes reaches the client before the handler ends, and After runs when the stream has ended",
		eachNeed(checkFlush),
	},
	{
		"response controller",
		"http.ResponseController can do to a guarded response what it can do to an unguarded one",
		eachNeed(checkController),
	},
	{
		"hijack",
		"a handler can take over the connection; After runs once, when the handler ends",
		eachNeed(checkHijack),
	},
}

// eachNeed runs check with a policy that needs nothing and with one that needs the status, since an adapter may
// have to wrap the writer for that.
func eachNeed(check func(*testing.T, Adapter, guard.Requirement)) func(*testing.T, Adapter) {
	return func(t *testing.T, a Adapter) {
		check(t, a, 0)
		check(t, a, guard.RequireStatus)
	}
}

// serve starts a server for h and returns its address.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// fetch sends a GET request. A stream that does not come is cut off, so that the test fails and does not hang.
func fetch(t *testing.T, url string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func checkFlush(t *testing.T, a Adapter, needs guard.Requirement) {
	release, done := make(chan struct{}), make(chan struct{})
	spy := &Spy{Needs: needs, OnAfter: func(context.Context, guard.Exchange, guard.Decision, guard.Outcome) error {
		close(done)
		return nil
	}}
	res := fetch(t, serve(t, a.one(nil, func(w http.ResponseWriter, r *http.Request) error {
		_, _ = io.WriteString(w, "first\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		_, err := io.WriteString(w, "second\n")
		return err
	}, spy))+"/items/7")

	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" {
		t.Fatalf("while the handler runs the client reads %q (%v)", line, err)
	}
	if n := len(spy.Outcomes()); n != 0 {
		t.Errorf("After ran %d times while the handler was running", n)
	}
	close(release)
	if line, err := lines.ReadString('\n'); line != "second\n" {
		t.Errorf("after the handler has ended the client reads %q (%v)", line, err)
	}
	<-done
}

func checkController(t *testing.T, a Adapter, needs guard.Requirement) {
	results := make(chan string, 1)
	h := func(w http.ResponseWriter, _ *http.Request) error {
		c := http.NewResponseController(w)
		_, flusher := w.(http.Flusher)
		_, hijacker := w.(http.Hijacker)
		results <- fmt.Sprint(
			"read deadline: ", c.SetReadDeadline(time.Now().Add(time.Minute)),
			"; write deadline: ", c.SetWriteDeadline(time.Now().Add(time.Minute)),
			"; full duplex: ", c.EnableFullDuplex(),
			"; flush: ", c.Flush(), "; flusher: ", flusher, "; hijacker: ", hijacker,
		)
		return nil
	}
	url := serve(t, a.Mount(App{TrafficGuard: new(guard.TrafficGuard), Routes: []Route{
		{Method: http.MethodGet, Pattern: "/bare", Handler: h},
		{Method: http.MethodGet, Pattern: "/guarded", Handler: h, Policies: policies(&Spy{Needs: needs})},
	}}))
	ask := func(path string) string {
		_, _ = io.Copy(io.Discard, fetch(t, url+path).Body)
		return <-results
	}
	if bare, guarded := ask("/bare"), ask("/guarded"); bare != guarded {
		t.Errorf("bare:    %s\nguarded: %s", bare, guarded)
	}
}

func checkHijack(t *testing.T, a Adapter, needs guard.Requirement) {
	done := make(chan struct{})
	spy := &Spy{Needs: needs, OnAfter: func(context.Context, guard.Exchange, guard.Decision, guard.Outcome) error {
		close(done)
		return nil
	}}
	res := fetch(t, serve(t, a.one(nil, func(w http.ResponseWriter, _ *http.Request) error {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return err
		}
		_, err = rw.WriteString("HTTP/1.1 299 Taken Over\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmine")
		return errors.Join(err, rw.Flush(), conn.Close())
	}, spy))+"/items/7")
	if body, err := io.ReadAll(res.Body); res.StatusCode != 299 || string(body) != "mine" {
		t.Errorf("the client reads %d %q (%v)", res.StatusCode, body, err)
	}
	<-done
	if o := onlyOutcome(t, spy); !o.Ran || o.Panicked || o.Err != nil {
		t.Errorf("the outcome is %+v", o)
	}
}
