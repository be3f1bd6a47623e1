package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// tally is what callers were told.
type tally struct{ admitted, refused, saturated, unavailable atomic.Int64 }

func (n *tally) String() string {
	return fmt.Sprintf("admitted %d, refused %d, saturated %d, unavailable %d",
		n.admitted.Load(), n.refused.Load(), n.saturated.Load(), n.unavailable.Load())
}

// atOnce has callers ask at the same time.
func atOnce(t *testing.T, s *Store, r store.Request, callers int) *tally {
	t.Helper()
	n := new(tally)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for range callers {
		all.Go(func() {
			<-begin
			switch g, err := s.Take(context.Background(), r); {
			case errors.Is(err, store.ErrSaturated):
				n.saturated.Add(1)
			case errors.Is(err, store.ErrUnavailable):
				n.unavailable.Add(1)
			case err != nil:
				t.Errorf("Take: %v", err)
			case g.OK:
				n.admitted.Add(1)
			default:
				n.refused.Add(1)
			}
		})
	}
	close(begin)
	all.Wait()
	return n
}

// TestFlood: more callers than there are connections and time for do not look like an outage. The server is slow enough
// that most of them cannot be asked in time however fast the machine is.
func TestFlood(t *testing.T) {
	t.Parallel()
	const pool = 20
	for _, callers := range []int{1000, 2000} {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, warm %v", callers, warm), func(t *testing.T) {
				t.Parallel()
				p := redistest.NewProxy(t, shared.Addr())
				logged := new(record)
				s := open(t, p.URL()+fmt.Sprintf("?pool_size=%d", pool), Timeout(250*time.Millisecond), logged.logger())
				awaitAnswer(t, s)
				p.SetDelay(20 * time.Millisecond)
				if warm {
					await(t, "connections", func() error {
						if n := atOnce(t, s, request(t, "warm", limit.PerDay(1)), pool); n.unavailable.Load()+n.saturated.Load() > 0 {
							return errors.New(n.String())
						}
						return nil
					})
				}
				before := p.Count("evalsha")
				n := atOnce(t, s, request(t, "a", limit.PerDay(10)), callers)
				t.Log(n)
				// A busy machine may read some answers too late, of those that were in flight.
				lost := n.unavailable.Load()
				if lost > pool || n.admitted.Load() > 10 || n.admitted.Load()+lost < 10 {
					t.Errorf("%s; want 10 admitted", n)
				}
				if n.saturated.Load() == 0 {
					t.Errorf("%s: this is no flood", n)
				}
				if sent, answered := p.Count("evalsha")-before, int(n.admitted.Load()+n.refused.Load()); sent > answered+2*pool {
					t.Errorf("%d commands were sent, %d answered", sent, answered)
				}
				if s.servers.(*single).breaker.tripped() || logged.count("left alone") != 0 {
					t.Errorf("the breaker is open:\n%s", logged.text.String())
				}
			})
		}
	}
}

// TestFloodOnSilentServer: many callers do not hide that nothing is answered.
func TestFloodOnSilentServer(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, shared.Addr())
	logged := new(record)
	s := open(t, p.URL()+"?pool_size=20", Timeout(DefaultTimeout), logged.logger())
	awaitAnswer(t, s)
	p.SetMode(redistest.Silent)
	_, err := s.Take(context.Background(), request(t, "a", limit.PerDay(10)))
	mustBe(t, err, store.ErrUnavailable)
	await(t, "the breaker to open", func() error {
		n := atOnce(t, s, request(t, "a", limit.PerDay(10)), 200)
		if n.admitted.Load()+n.refused.Load() != 0 {
			t.Errorf("%s on a silent server", n)
		}
		if logged.count("left alone") == 0 {
			return errors.New("still asking")
		}
		return nil
	})
	if n := atOnce(t, s, request(t, "a", limit.PerDay(10)), 200); n.unavailable.Load() != 200 {
		t.Errorf("%s with an open breaker", n)
	}
}

// TestFullClient: a client that others use as well may have no connection left, as far as the store can see.
func TestFullClient(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{
		Addr: shared.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 2, PoolTimeout: time.Millisecond,
	})
	t.Cleanup(func() { _ = client.Close() })
	logged := new(record)
	s, err := New(client, "test", Timeout(patient), logged.logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := request(t, "a", limit.PerDay(3))
	take(t, s, r)
	ctx := context.Background()
	for range 2 {
		taken := client.Conn()
		t.Cleanup(func() { _ = taken.Close() })
		if err := taken.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range tripAfter {
		_, err = s.Take(ctx, r)
		mustBe(t, err, store.ErrUnavailable) // nothing was answered meanwhile
		if !strings.Contains(err.Error(), "pool timeout") {
			t.Errorf("error is %v", err)
		}
	}
}

// TestSlowServerAfterLostConnections: to connect and ask takes longer than a call may, and to ask does not. A lost connection
// must not be the end.
func TestSlowServerAfterLostConnections(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{1, 20} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p := redistest.NewProxy(t, server.Addr())
			s := open(t, p.URL(), Timeout(250*time.Millisecond))
			awaitAnswer(t, s)
			p.SetDelay(150 * time.Millisecond)
			r := request(t, "a", limit.PerDay(10))
			enforced := func() error {
				if n := atOnce(t, s, r, callers); n.admitted.Load()+n.refused.Load() != int64(callers) {
					return errors.New(n.String())
				}
				return nil
			}
			await(t, "answers", enforced)
			for range 2 {
				server.CLI("client", "kill", "type", "normal")
				start := time.Now()
				await(t, "answers after all connections were lost", enforced)
				t.Logf("enforced again after %s", time.Since(start))
			}
		})
	}
}

// TestSlowServerAfterOutage is the same for the try that closes the breaker.
func TestSlowServerAfterOutage(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, shared.Addr())
	logged := new(record)
	s := open(t, p.URL(), Timeout(250*time.Millisecond), logged.logger())
	awaitAnswer(t, s)
	r := request(t, "a", limit.PerDay(10))
	p.SetMode(redistest.Refuse)
	await(t, "the breaker to open", func() error {
		_, err := s.Take(context.Background(), r)
		mustBe(t, err, store.ErrUnavailable)
		if logged.count("left alone") == 0 {
			return errors.New("still asking")
		}
		return nil
	})
	p.SetDelay(150 * time.Millisecond)
	p.SetMode(redistest.Pass)
	await(t, "an answer", func() error {
		_, err := s.Take(context.Background(), r)
		return err
	})
}

// TestTooSlowServer: connections alone are no answer. A server that always takes too long is left alone.
func TestTooSlowServer(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, shared.Addr())
	logged := new(record)
	s := open(t, p.URL(), Timeout(DefaultTimeout), logged.logger())
	awaitAnswer(t, s)
	p.SetDelay(100 * time.Millisecond)
	await(t, "the breaker to open", func() error {
		_, err := s.Take(context.Background(), request(t, "a", limit.PerDay(10)))
		mustBe(t, err, store.ErrUnavailable)
		if logged.count("left alone") == 0 {
			return errors.New("still asking")
		}
		return nil
	})
}

// TestCloseEndsProbes: the store's goroutines end with it, also where a client of the caller's stays open.
func TestCloseEndsProbes(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, shared.Addr())
	client := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(client, "test", Timeout(soon), new(record).logger())
	if err != nil {
		t.Fatal(err)
	}
	p.SetMode(redistest.Silent)
	_, err = s.Take(context.Background(), request(t, "a", limit.PerDay(10)))
	mustBe(t, err, store.ErrUnavailable)
	gate := s.servers.(*single).gate
	await(t, "the probe", func() error {
		if !gate.breaker.mending.Load() {
			_, _ = s.Take(context.Background(), request(t, "a", limit.PerDay(10)))
			return errors.New("nothing runs")
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if gate.breaker.mending.Load() || s.background.start(func(context.Context) {}) {
		t.Error("something runs after Close")
	}
}

func TestUnwritten(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]bool{"write": true, "read": false, "dial": false} {
		if got := unwritten(fmt.Errorf("x: %w", &net.OpError{Op: op, Err: errOverdue})); got != want {
			t.Errorf("%s: %v, want %v", op, got, want)
		}
	}
	if unwritten(errOverdue) || unwritten(nil) {
		t.Error("an error of no connection is said to be of one")
	}
}
