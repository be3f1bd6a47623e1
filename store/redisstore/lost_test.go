package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// soon is how long a call waits that is meant to fail.
const soon = 200 * time.Millisecond

// losses are the ways in which a reply is lost after the server has charged.
func losses() map[string]redistest.Mode {
	return map[string]redistest.Mode{"swallowed": redistest.Swallow, "cut": redistest.CutReply}
}

// TestLostReplyIsChargedOnce: the server has seen the request and the client has not seen the answer.
func TestLostReplyIsChargedOnce(t *testing.T) {
	t.Parallel()
	for name, mode := range losses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, shared.Addr())
			s := open(t, p.URL(), Timeout(soon))
			awaitAnswer(t, s)
			loseReplies(t, s, p, mode, request(t, "a", limit.PerHour(100)))
		})
	}
}

// TestLostReplyOfOwnClient is the same for a client that New accepts.
func TestLostReplyOfOwnClient(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, shared.Addr())
	client := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(client, "test", Timeout(soon), Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	awaitAnswer(t, s)
	loseReplies(t, s, p, redistest.Swallow, request(t, "a", limit.PerHour(100)))
}

// loseReplies loses the replies to a few requests, behind a proxy that all of them cross, and compares what was sent with what
// was charged. The breaker is kept out of it by asking less often than it takes to trip.
func loseReplies(t *testing.T, s *Store, p *redistest.Proxy, mode redistest.Mode, r store.Request) {
	t.Helper()
	ctx := context.Background()
	key := s.keyOf(r)
	sent := func(c script) int { return p.Count(fmt.Sprintf("%s\r\n$1\r\n1\r\n$%d\r\n%s", c.digest, len(key), key)) }
	g := take(t, s, r)
	if err := s.Settle(ctx, take(t, s, r).Receipt(r), 0); err != nil { // so that no script is unknown
		t.Fatalf("Settle: %v", err)
	}
	charged, takes, settles := spent(t, s, r), sent(s.scripts.take), sent(s.scripts.settle)

	const lost = tripAfter - 2
	p.SetModeFor(mode, key)
	for range lost {
		_, err := s.Take(ctx, r)
		mustBe(t, err, store.ErrUnavailable)
	}
	mustBe(t, s.Settle(ctx, g.Receipt(r), 11), store.ErrUnavailable)
	p.SetMode(redistest.Pass)
	awaitAnswer(t, s)

	takes, settles = sent(s.scripts.take)-takes, sent(s.scripts.settle)-settles
	if takes < 1 || takes > lost || settles > 1 { // fewer if the machine was too busy for a new connection
		t.Errorf("%d requests and a settlement were sent %d and %d times", lost, takes, settles)
	}
	await(t, "the charges", func() error {
		if got, want := spent(t, s, r)-charged, int64(takes+10*settles); got != want {
			return fmt.Errorf("%d requests and %d settlements by 10 were charged %d", takes, settles, got)
		}
		return nil
	})
}

// TestLostReplyOfUnknownScript: the script is sent anew after NOSCRIPT, and that reply is lost.
func TestLostReplyOfUnknownScript(t *testing.T) {
	t.Parallel()
	for name, mode := range losses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p := redistest.NewProxy(t, server.Addr())
			s := open(t, p.URL(), Timeout(soon))
			awaitAnswer(t, s)
			server.CLI("script", "flush")
			r := request(t, "a", limit.PerHour(100))
			p.SetModeFor(mode, "eval\r\n")
			_, err := s.Take(context.Background(), r)
			mustBe(t, err, store.ErrUnavailable)
			p.SetMode(redistest.Pass)
			awaitAnswer(t, s)
			if got := spent(t, s, r); got != 1 {
				t.Errorf("one request was charged %d times", got)
			}
		})
	}
}

// TestBurstIsExact: of many at once exactly the burst passes, while the server is made to forget the scripts.
func TestBurstIsExact(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL())
	r := request(t, "a", limit.PerDay(100))

	flushing, stop := context.WithCancel(context.Background())
	var flusher, callers sync.WaitGroup
	flusher.Go(func() {
		for flushing.Err() == nil {
			server.CLI("script", "flush")
		}
	})
	var passed atomic.Int64
	for range 200 {
		callers.Go(func() {
			for range 5 {
				g, err := s.Take(context.Background(), r)
				if err != nil {
					t.Errorf("Take: %v", err)
				}
				if g.OK {
					passed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	stop()
	flusher.Wait()
	if passed.Load() != 100 {
		t.Errorf("%d passed, want 100", passed.Load())
	}
}

// TestEveryScriptIsSentAnew: after SCRIPT FLUSH no call of any kind fails.
func TestEveryScriptIsSentAnew(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL())
	ctx := context.Background()
	var all sync.WaitGroup
	for i := range 50 {
		r := request(t, fmt.Sprint(i), limit.PerHour(10))
		r.Cost = 5
		g := take(t, s, r)
		if i == 0 {
			server.CLI("script", "flush")
		}
		all.Go(func() {
			if err := s.Settle(ctx, g.Receipt(r), 3); err != nil {
				t.Errorf("Settle: %v", err)
			}
			if got := spent(t, s, r); got != 3 {
				t.Errorf("spent %d, want 3", got)
			}
			if err := s.Reset(ctx, r.Key); err != nil {
				t.Errorf("Reset: %v", err)
			}
		})
	}
	all.Wait()
}
