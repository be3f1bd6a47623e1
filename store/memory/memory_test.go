package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.TestRateStore(t, storetest.Config{
		Open: func(_ testing.TB, clock *storetest.Clock) store.RateStore {
			return memory.New(memory.Clock(clock.Now))
		},
		Decisions: 100_000,
	})
}

func TestContractInOneShard(t *testing.T) {
	t.Parallel()
	storetest.TestRateStore(t, storetest.Config{
		Open: func(_ testing.TB, clock *storetest.Clock) store.RateStore {
			return memory.New(memory.Clock(clock.Now), memory.MaxKeys(1000))
		},
	})
}

func TestNewPanicsWithAllFaults(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, -1, math.MinInt} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if err == nil {
					t.Fatalf("MaxKeys(%d): New does not panic with an error", n)
				}
				for _, want := range []string{"memory.New", fmt.Sprintf("MaxKeys(%d)", n), "Clock(nil)", "OnOverflow(nil)", "option 4 is nil"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("the panic says %q, and nothing of %s", err, want)
					}
				}
			}()
			memory.New(memory.MaxKeys(n), memory.Clock(nil), memory.OnOverflow(nil), nil)
		}()
	}
}

func TestMistakesOfTheProgram(t *testing.T) {
	t.Parallel()
	ctx, s, rule := t.Context(), memory.New(), compiled(t, limit.PerMinute(10))
	if _, err := s.Take(ctx, store.Request{Key: key(1), Cost: 1}); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("Take without a rule: %v, want store.ErrMisconfigured", err)
	}
	if _, err := s.Peek(ctx, store.Request{Key: key(1), Cost: 1}); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("Peek without a rule: %v, want store.ErrMisconfigured", err)
	}
	if err := s.Settle(ctx, store.Receipt{}, 1); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("Settle of the zero receipt: %v, want store.ErrMisconfigured", err)
	}
	for _, cost := range []int64{0, -5, 11, math.MaxInt64} {
		forged := store.Receipt{Request: store.Request{Key: key(1), Rule: rule, Cost: cost}}
		if err := s.Settle(ctx, forged, 1); !errors.Is(err, limit.ErrCost) {
			t.Errorf("Settle of a receipt for cost %d of a burst of 10: %v, want limit.ErrCost", cost, err)
		}
	}
	if s.Len() != 0 {
		t.Errorf("%d subjects are kept", s.Len())
	}
}

func TestDecisionsIgnoreTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := memory.New()
	g, err := s.Take(ctx, store.Request{Key: key(1), Rule: compiled(t, limit.PerMinute(10)), Cost: 1})
	if err != nil || !g.OK {
		t.Fatalf("Take with a cancelled context: %+v, %v", g.Verdict, err)
	}
}

// TestTheSystemsTime checks the store without a Clock option.
func TestTheSystemsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		r := store.Request{Key: key(1), Rule: compiled(t, limit.Every(10*time.Second)), Cost: 1}
		mustTake(t, s, r)
		time.Sleep(4 * time.Second)
		g, err := s.Take(t.Context(), r)
		if err != nil || g.OK || g.Wait != 6*time.Second {
			t.Fatalf("4s after the one in 10s: %+v, %v, want a wait of 6s", g.Verdict, err)
		}
		time.Sleep(g.Wait)
		if g := mustTake(t, s, r); g.At.At != time.Now().Add(10*time.Second).UnixMicro() {
			t.Errorf("the bucket is full at %d, want 10s from now, in microseconds since 1970", g.At.At)
		}
	})
}

func TestIsLocal(t *testing.T) {
	t.Parallel()
	if !store.IsLocal(memory.New()) {
		t.Error("the store does not say that it is local")
	}
}

// TestRefusalsAreNotKept checks that who is refused, looked at or reset takes no memory.
func TestRefusalsAreNotKept(t *testing.T) {
	t.Parallel()
	s, rule := memory.New(), compiled(t, limit.PerMinute(10))
	for i := range 100 {
		r := store.Request{Key: key(i), Rule: rule, Cost: 11}
		if g, err := s.Take(t.Context(), r); err != nil || g.OK {
			t.Fatalf("Take of cost 11: %+v, %v", g, err)
		}
		r.Cost = 1
		if _, err := s.Peek(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := s.Reset(t.Context(), r.Key); err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != 0 {
		t.Errorf("%d subjects are kept", s.Len())
	}
}

// TestExactWhileTablesMove lets hot subjects be decided while others come by the thousand, are forgotten and swept.
func TestExactWhileTablesMove(t *testing.T) {
	t.Parallel()
	const hot, burst, workers, rounds = 20, 300, 8, 3000
	clock := storetest.NewClock()
	s := memory.New(memory.Clock(clock.Now), memory.MaxKeys(1<<20))
	slow, fast := compiled(t, limit.Per(burst, 100*24*time.Hour)), compiled(t, limit.Every(5*time.Millisecond))
	var admitted [hot]atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				clock.Advance(time.Millisecond) // 24s in all; the hot limits gain a token in 8 hours
				h := (i + w) % hot
				g, err := s.Take(context.Background(), store.Request{Key: key(h), Rule: slow, Cost: 1})
				if err != nil {
					t.Error(err)
				}
				if g.OK {
					admitted[h].Add(1)
				}
				for n := range 4 {
					passing := store.Key{Policy: "passing", Kind: "n", Subject: fmt.Sprint(w, i, n)}
					if g, err := s.Take(context.Background(), store.Request{Key: passing, Rule: fast, Cost: 1}); err != nil || !g.OK {
						t.Errorf("a new subject: %+v, %v", g.Verdict, err)
					}
				}
			}
		})
	}
	wg.Wait()
	for h := range admitted {
		if got := admitted[h].Load(); got != burst {
			t.Errorf("hot subject %d: %d admitted, the burst is %d", h, got, burst)
		}
	}
	if got := s.Len(); got > workers*rounds { // of four times as many; each lived 5ms of 24s
		t.Errorf("%d subjects are kept", got)
	}
}

func mustTake(t *testing.T, s *memory.Store, r store.Request) store.Grant {
	t.Helper()
	g, err := s.Take(t.Context(), r)
	if err != nil || !g.OK {
		t.Fatalf("Take(%s): %+v, %v, must pass", r.Key.Subject, g.Verdict, err)
	}
	return g
}
