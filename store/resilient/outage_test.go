package resilient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
)

// openRedis opens a store that ends with the test.
func openRedis(t testing.TB, url string, timeout time.Duration) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(url, "test", redisstore.Timeout(timeout), redisstore.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// await polls until f is nil, as what happens elsewhere cannot be waited for otherwise.
func await(t testing.TB, what string, f func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %v", what, err)
		}
		<-tick.C
	}
}

// awaitPrimary waits until the primary decides, and not only for once.
func awaitPrimary(t testing.TB, s *Store) {
	t.Helper()
	await(t, "the primary", func() error {
		if g := take(t, s, request(t, "probe", limitOfTests)); g.Degraded {
			return errors.New("the fallback decides")
		}
		if got := s.State(); got.Circuit != Closed || got.Condition != Serving {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
}

// awaitOpen takes until the circuit has opened. All must be refused by the fallback.
func awaitOpen(t testing.TB, s *Store, r store.Request) {
	t.Helper()
	await(t, "the circuit to open", func() error {
		if g := takeFrom(t, s, r, true); g.OK {
			t.Fatalf("%+v, the share was spent", g)
		}
		if s.State().Circuit == Closed {
			return errors.New("it is closed")
		}
		return nil
	})
}

// TestNetworkFaults: whatever happens to the network, every request is decided, the fallback keeps the share, the circuit opens,
// and once the network is well the primary keeps the limit as if nothing had been.
func TestNetworkFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		fail      func(p *redistest.Proxy)
		condition Condition
		reaches   bool // the server, though the answer is lost
	}{
		{"refused", func(p *redistest.Proxy) { p.SetMode(redistest.Refuse) }, Down, false},
		{"reset", func(p *redistest.Proxy) { p.SetMode(redistest.Reset) }, Down, false},
		{"silent", func(p *redistest.Proxy) { p.SetMode(redistest.Silent) }, Slow, false},
		{"slow", func(p *redistest.Proxy) { p.SetDelay(2 * DefaultTimeout) }, Slow, true},
		{"reply swallowed", func(p *redistest.Proxy) { p.SetMode(redistest.Swallow) }, Slow, true},
		{"reply cut", func(p *redistest.Proxy) { p.SetMode(redistest.CutReply) }, Down, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, shared.Addr())
			s := New(openRedis(t, p.URL(), DefaultTimeout), quiet(), Fallback(memory.New(), 2))
			direct := openRedis(t, shared.URL(), patient)
			awaitPrimary(t, s)
			r := request(t, "drowned", limit.PerDay(20))
			for range 4 {
				take(t, direct, r)
			}
			tc.fail(p)
			passed := 0
			for range 30 {
				if takeFrom(t, s, r, true).OK {
					passed++
				}
			}
			if passed != 10 {
				t.Errorf("%d passed during the outage, want 10, the share", passed)
			}
			awaitOpen(t, s, r)
			if got := s.State(); got.Condition != tc.condition || got.Degraded < 30 {
				t.Errorf("%+v, want %s", got, tc.condition)
			}
			charged := int64(4)
			if tc.reaches {
				charged += int64(p.Count("drowned"))
			}
			p.SetDelay(0)
			p.SetMode(redistest.Pass)
			awaitPrimary(t, s)
			await(t, "the charges of the outage", func() error {
				if got := spent(t, direct, r); got != charged {
					return fmt.Errorf("%d are spent at the primary, want %d", got, charged)
				}
				return nil
			})
			spendAll(t, s, r, 20-charged)
		})
	}
}

// spendAll takes until the primary refuses. No more than there was left there may pass; fewer do if an answer comes too late.
func spendAll(t *testing.T, s *Store, r store.Request, left int64) {
	t.Helper()
	var passed int64
	await(t, "a refusal by the primary", func() error {
		for {
			g := take(t, s, r)
			switch {
			case g.Degraded:
				return fmt.Errorf("the fallback decides: %+v", s.State())
			case !g.OK:
				return nil
			}
			passed++
		}
	})
	if passed > left || passed == 0 {
		t.Errorf("%d passed at the primary, %d were left", passed, left)
	}
}

// TestLostReplyIsChargedOnce: what was charged at the primary is at most what was sent to it, and nothing was sent twice.
func TestLostReplyIsChargedOnce(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]redistest.Mode{"swallowed": redistest.Swallow, "cut": redistest.CutReply} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, shared.Addr())
			s := New(openRedis(t, p.URL(), DefaultTimeout), quiet(), Fallback(memory.New(), 2))
			direct := openRedis(t, shared.URL(), patient)
			awaitPrimary(t, s)
			r := request(t, "drowned", limit.PerDay(100))
			p.SetModeFor(mode, "drowned")
			const lost = tripAfter - 2
			for range lost {
				takeFrom(t, s, r, true)
			}
			p.SetMode(redistest.Pass)
			sent := int64(p.Count("drowned"))
			if sent > lost { // fewer if the machine was too busy for a new connection
				t.Errorf("%d requests were sent %d times", lost, sent)
			}
			await(t, "the charges", func() error {
				if got := spent(t, direct, r); got != sent {
					return fmt.Errorf("%d were sent, %d charged", sent, got)
				}
				return nil
			})
		})
	}
}

// TestOutageWithTwoInstances: of many at once, each instance admits exactly half of the limit while the server is gone.
func TestOutageWithTwoInstances(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := request(t, "a", limit.PerDay(100))
	var instances [2]*Store
	for i := range instances {
		instances[i] = New(openRedis(t, server.URL(), DefaultTimeout), quiet(), Fallback(memory.New(), len(instances)))
	}
	server.Kill()

	var passed [len(instances)]atomic.Int64
	var callers sync.WaitGroup
	for i, s := range instances {
		for range 200 {
			callers.Go(func() {
				if takeFrom(t, s, r, true).OK {
					passed[i].Add(1)
				}
			})
		}
	}
	callers.Wait()
	for i := range passed {
		if got := passed[i].Load(); got != 50 {
			t.Errorf("instance %d: %d of 200 passed, want 50", i+1, got)
		}
	}

	server.Restart()
	var together int64
	for _, s := range instances {
		awaitPrimary(t, s)
	}
	await(t, "the limit to be spent at the primary", func() error {
		for _, s := range instances {
			g := take(t, s, r)
			switch {
			case !g.OK && !g.Degraded:
				return nil
			case g.OK && !g.Degraded:
				together++
			}
		}
		return errors.New("there is some left")
	})
	if together > 100 || together < 90 { // a charge whose answer came too late is not counted here
		t.Errorf("%d passed at the primary after its return, want 100", together)
	}
}

// TestFrozenServer: a process that hangs costs a few requests the deadline, and then nothing.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := New(openRedis(t, server.URL(), DefaultTimeout), quiet(), Fallback(memory.New(), 2))
	awaitPrimary(t, s)
	server.Pause()
	r := request(t, "a", limit.PerDay(20))
	for range 10 {
		takeFrom(t, s, r, true)
	}
	awaitOpen(t, s, r)
	for range 1000 {
		takeFrom(t, s, r, true)
	}
	if got := s.State(); got.Condition != Slow {
		t.Errorf("%+v, want slow", got)
	}
	server.Resume()
	awaitPrimary(t, s)
}

// TestMissingPermission is answered by nobody but the server: it is not an outage.
func TestMissingPermission(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := New(openRedis(t, server.URL(), patient), Timeout(patient), quiet(), Fallback(memory.New(), 2))
	r := request(t, "a", limit.PerDay(100))
	takeFrom(t, s, r, false)
	if got := server.CLI("acl", "setuser", "default", "-evalsha"); got != "OK" {
		t.Fatal(got)
	}
	for range 2 * tripAfter {
		_, err := s.Take(context.Background(), r)
		mustBe(t, err, store.ErrMisconfigured)
	}
	if got := s.State(); got.Circuit != Closed || got.Condition != Misconfigured || got.Degraded != 0 || !strings.Contains(got.Err.Error(), "NOPERM") {
		t.Errorf("%+v, want closed, misconfigured, and no degraded decision", got)
	}
	if got := server.CLI("acl", "setuser", "default", "+evalsha"); got != "OK" {
		t.Fatal(got)
	}
	if g := takeFrom(t, s, r, false); g.Remaining != 98 {
		t.Errorf("%+v, want 98 remaining", g.Verdict)
	}
}
