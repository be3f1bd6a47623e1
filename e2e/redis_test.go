package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
)

// open returns a store on url whose keys no other test uses.
func open(t *testing.T, url string, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(url, namespace(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// namespace returns one that was not used before, also not by an earlier run of the same tests on the same server.
func namespace() string { return fmt.Sprintf("e2e-%d", namespaces.Add(1)) }

var namespaces atomic.Int64

// unhurried waits for Redis longer than a service would: these tests ask for exact counts on a busy machine.
var unhurried = redisstore.Timeout(5 * time.Second)

// patient is a TrafficGuard to match.
func patient(observe func(guard.Event)) *guard.TrafficGuard {
	return &guard.TrafficGuard{Budget: 10 * time.Second, Observe: func(_ context.Context, e guard.Event) {
		if observe != nil {
			observe(e)
		}
	}}
}

func TestConcurrentBurstOnRedis(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(100), user, policies.InStore(open(t, redis.URL(), unhurried)), policies.Named("burst"))
		c := serve(t, mount(patient(nil), "GET", "/x", ok, p))
		if got := burst(c, 200, t.Name()); got[200] != 100 || got[429] != 100 {
			t.Errorf("of 200 at once against 100 an hour: %v", got)
		}
	})
}

func TestThreeProcessesShareABudget(t *testing.T) {
	var clients []*client
	shared := namespace()
	for _, framework := range []string{"gin", "echo v5", "net/http"} {
		clients = append(clients, startProcess(t, framework, shared))
	}
	got := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for status, n := range burst(c, 100, "three") {
				mu.Lock()
				got[status] += n
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got[200] != 100 || got[429] != 200 {
		t.Errorf("of 300 at once over three processes against 100 an hour: %v, want 100 served and 200 refused", got)
	}
}

// startProcess runs one instance of the app in a process of its own.
func startProcess(t *testing.T, framework, namespace string) *client {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envFramework+"="+framework, envRedis+"="+redis.URL(), envNamespace+"="+namespace)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", framework, err)
		}
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not start: %v", framework, err)
	}
	return dial(t, strings.TrimSpace(url))
}

func TestScriptFlushIsNotFelt(t *testing.T) {
	var undecided atomic.Int64
	tg := patient(func(e guard.Event) {
		if e.Kind == guard.Undecided {
			undecided.Add(1)
		}
	})
	server := redistest.Start(t)
	p := policies.UserRateLimit(limit.PerHour(100), user, policies.InStore(open(t, server.URL(), unhurried)), policies.Named("flush"))
	c := serve(t, frameworks["gin"](tg, "GET", "/x", ok, p))
	stop := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				server.CLI("SCRIPT", "FLUSH")
			}
		}
	})
	got := map[int]int{}
	for range 4 {
		for status, n := range burst(c, 50, "ann") {
			got[status] += n
		}
	}
	close(stop)
	flusher.Wait()
	if got[200] != 100 || got[429] != 100 || undecided.Load() != 0 {
		t.Errorf("200 requests while the scripts are flushed: %v, %d undecided; want 100 served, 100 refused, 0", got, undecided.Load())
	}
}

// TestRedisRestart takes Redis away in the middle of a stream of requests and brings it back, empty.
func TestRedisRestart(t *testing.T) {
	for _, mode := range []guard.FailureMode{guard.Open, guard.Closed} {
		t.Run(mode.String(), func(t *testing.T) {
			server := redistest.Start(t)
			events := new(eventLog)
			tg := &guard.TrafficGuard{FailureMode: mode, Observe: events.observe}
			const limited = 20
			p := policies.UserRateLimit(limit.PerHour(limited), user, policies.InStore(open(t, server.URL())), policies.Named("restart"))
			c := serve(t, frameworks["echo v5"](tg, "GET", "/x", ok, p))
			ann := header("X-User-Id", "ann")

			want(t, "before", c.statuses(limited+5, "GET", ann)[limited:], slices.Repeat([]int{429}, 5))
			server.Kill()
			down := 200
			if mode == guard.Closed {
				down = 503
			}
			want(t, "while Redis is down the failure mode answers", c.statuses(30, "GET", ann), slices.Repeat([]int{down}, 30))
			server.Restart()

			// The restarted server knows nothing, so the budget is there once more. Until it is asked again requests
			// may pass undecided, and each of them says so.
			served := 0
			deadline := time.Now().Add(20 * time.Second)
			for status := 0; status != 429; {
				if time.Now().After(deadline) {
					t.Fatal("20 s after Redis is back the limit is not enforced")
				}
				status = c.send("GET", "/x", ann).status
				if status == 200 {
					served++
				}
			}
			degraded := int(events.degraded.Load())
			if mode == guard.Open {
				degraded -= 30 // those while it was down
			}
			if served != limited+degraded {
				t.Errorf("%d were served after the restart, want the limit of %d and the %d that an event calls degraded", served, limited, degraded)
			}
			if s := events.errors(); strings.Contains(s, "NOSCRIPT") {
				t.Errorf("the lost script was felt: %s", s)
			}
		})
	}
}

// An eventLog counts degraded passes and keeps the errors of undecided requests.
type eventLog struct {
	degraded atomic.Int64
	mu       sync.Mutex
	seen     map[string]int
}

func (l *eventLog) observe(_ context.Context, e guard.Event) {
	if e.Degraded {
		l.degraded.Add(1)
	}
	if e.Err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.seen == nil {
			l.seen = map[string]int{}
		}
		l.seen[e.Err.Error()]++
	}
}

func (l *eventLog) errors() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(slices.Sorted(maps.Keys(l.seen)))
}

func TestRedisAbsentAtStart(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	events := new(eventLog)
	p := policies.UserRateLimit(limit.PerHour(1), user, policies.InStore(open(t, server.URL())), policies.Named("absent"))
	c := serve(t, frameworks["gin"](&guard.TrafficGuard{Observe: events.observe}, "GET", "/x", ok, p))
	ann := header("X-User-Id", "ann")
	want(t, "open while Redis is absent", c.statuses(3, "GET", ann), []int{200, 200, 200})
	if events.degraded.Load() != 3 {
		t.Errorf("%d passes were called degraded, want 3", events.degraded.Load())
	}
	server.Restart()
	deadline := time.Now().Add(20 * time.Second)
	for c.send("GET", "/x", ann).status != 429 {
		if time.Now().After(deadline) {
			t.Fatal("20 s after Redis has come the limit is not enforced")
		}
	}
}

// TestSilentRedisCostsTheBudgetAtMost has Redis accept and never answer, behind a chain of three policies.
func TestSilentRedisCostsTheBudgetAtMost(t *testing.T) {
	proxy := redistest.NewProxy(t, redis.Addr())
	// The store alone would wait a minute for each policy, which no request here survives.
	s := open(t, "redis://"+proxy.Addr()+"/0", redisstore.Timeout(time.Minute))
	var chain []guard.GuardPolicy
	for _, name := range []string{"silent-1", "silent-2", "silent-3"} {
		chain = append(chain, policies.UserRateLimit(limit.PerHour(5), user, policies.InStore(s), policies.Named(name)))
	}
	events := new(eventLog)
	c := serve(t, frameworks["gin"](&guard.TrafficGuard{Observe: events.observe}, "GET", "/x", ok, chain...))
	proxy.SetMode(redistest.Silent)
	for status, n := range burst(c, 100, "ann") {
		if status != 200 {
			t.Errorf("%d requests were answered with %d while Redis was silent", n, status)
		}
	}
	proxy.SetMode(redistest.Pass)
	deadline := time.Now().Add(20 * time.Second)
	for c.send("GET", "/x", header("X-User-Id", "bob")).status != 429 {
		if time.Now().After(deadline) {
			t.Fatalf("20 s after Redis speaks again the limit is not enforced: %s", events.errors())
		}
	}
}

// TestSlowBodyDoesNotSpendTheBudget has a client send its body so slowly that the time for asking Redis would long be over.
func TestSlowBodyDoesNotSpendTheBudget(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		t.Parallel()
		shared := policies.Options(policies.InStore(open(t, redis.URL(), unhurried)), policies.FailClosed())
		chain := []guard.GuardPolicy{
			policies.UserRateLimit(limit.PerHour(1), resolver.BodyField("user"), policies.Named("slow-body"), shared),
			policies.UserRateLimit(limit.PerHour(100), resolver.ClientIP(), policies.Named("slow-body-ip"), shared),
		}
		c := serve(t, mount(&guard.TrafficGuard{Budget: 500 * time.Millisecond}, "POST", "/x", ok, chain...))
		slow := func(r *http.Request) {
			body(fmt.Sprintf(`{"user":%q}`, t.Name()))(r)
			r.Body = &slowBody{ReadCloser: r.Body, wait: 600 * time.Millisecond}
		}
		want(t, "a slow client is limited like any other", c.statuses(2, "POST", slow), []int{200, 429})
	})
}

// A slowBody waits before its first byte.
type slowBody struct {
	io.ReadCloser
	wait time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	<-time.After(b.wait)
	b.wait = 0
	return b.ReadCloser.Read(p)
}

// TestLostReplyChargesOnce lets requests reach Redis and drops the replies.
func TestLostReplyChargesOnce(t *testing.T) {
	proxy := redistest.NewProxy(t, redis.Addr())
	p := policies.UserRateLimit(limit.PerHour(10), user, policies.InStore(open(t, "redis://"+proxy.Addr()+"/0")),
		policies.Named("lost"), policies.Headers(policies.RateLimitHeaders))
	c := serve(t, frameworks["gin"](patient(nil), "GET", "/x", ok, p))
	c.send("GET", "/x", header("X-User-Id", "warm-up"))
	ann := header("X-User-Id", "ann")
	for name, mode := range map[string]redistest.Mode{"swallowed": redistest.Swallow, "cut": redistest.CutReply} {
		proxy.SetMode(mode)
		want(t, name+": the failure mode answers", c.statuses(1, "GET", ann), []int{200})
		proxy.SetMode(redistest.Pass)
	}
	a := c.send("GET", "/x", ann)
	if got := a.header.Get("RateLimit-Remaining"); got != "7" && got != "8" && got != "9" {
		t.Errorf("after two lost replies and one answer %s of 10 remain, want 7 at least", got)
	}
}
