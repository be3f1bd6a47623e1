package resilient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

// A bench is a store on a scripted primary, in a bubble whose time stands still unless somebody waits.
type bench struct {
	*Store
	t       *testing.T
	primary *scripted
	r       store.Request
}

// limitOfTests is one that no test reaches by accident.
var limitOfTests = limit.PerDay(1_000_000)

func inBubble(t *testing.T, f func(b *bench), opts ...Option) {
	t.Helper()
	t.Parallel()
	inBubbleNow(t, f, opts...)
}

// inBubbleNow is inBubble for a test that goes on afterwards.
func inBubbleNow(t *testing.T, f func(b *bench), opts ...Option) {
	t.Helper()
	r := request(t, "a", limitOfTests)
	synctest.Test(t, func(t *testing.T) {
		primary := newScripted()
		opts := append([]Option{quiet(), Fallback(memory.New(), 2)}, opts...)
		f(&bench{Store: New(primary, opts...), t: t, primary: primary, r: r})
	})
}

// decide takes n times. All must be decided, degraded or not, with so many calls of the primary, in that time altogether.
func (b *bench) decide(n int, degraded bool, calls int, took time.Duration) {
	b.t.Helper()
	before, start := b.primary.count(), time.Now()
	for range n {
		takeFrom(b.t, b.Store, b.r, degraded)
	}
	if got := b.primary.count() - before; got != calls {
		b.t.Fatalf("%d decisions called the primary %d times, want %d", n, got, calls)
	}
	if got := time.Since(start); got != took {
		b.t.Fatalf("%d decisions took %s, want %s", n, got, took)
	}
}

func (b *bench) is(circuit Circuit, condition Condition) {
	b.t.Helper()
	if got := b.State(); got.Circuit != circuit || got.Condition != condition {
		b.t.Fatalf("it is %s and %s, want %s and %s", got.Circuit, got.Condition, circuit, condition)
	}
}

// trip has the circuit open.
func (b *bench) trip() {
	b.t.Helper()
	b.primary.set(errDown)
	b.decide(tripAfter-1, true, tripAfter-1, 0)
	time.Sleep(tripOver)
	b.decide(1, true, 1, 0)
}

// moment is more than no time.
const moment = time.Nanosecond

func TestCircuit(t *testing.T) {
	inBubble(t, func(b *bench) {
		for range 10 { // failures that are not in a row
			b.primary.set(errDown)
			b.decide(tripAfter-1, true, tripAfter-1, 0)
			time.Sleep(time.Minute)
			b.primary.set(nil)
			b.decide(1, false, 1, 0)
		}
		b.primary.set(errDown)
		b.decide(100, true, 100, 0) // at one moment
		time.Sleep(tripOver - moment)
		b.decide(1, true, 1, 0)
		b.is(Closed, Serving)
		b.primary.set(nil)
		b.decide(1, false, 1, 0)

		b.trip()
		b.is(Open, Down)
		b.decide(100, true, 0, 0)
		time.Sleep(openFor)
		b.decide(100, true, 0, 0)
		for range 3 { // one call a second
			time.Sleep(moment)
			b.is(HalfOpen, Down)
			b.decide(100, true, 1, 0)
			b.is(Open, Down)
			time.Sleep(openFor)
		}
		time.Sleep(moment)
		b.primary.set(nil)
		b.decide(100, false, 100, 0)
		b.is(Closed, Serving)
	})
}

func TestSlowPrimary(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.script(nil, time.Hour, true)
		b.decide(tripAfter, true, tripAfter, tripAfter*DefaultTimeout)
		b.is(Open, Slow)
		b.decide(100, true, 0, 0)
		time.Sleep(openFor + moment)
		b.decide(100, true, 1, DefaultTimeout)
		b.is(Open, Slow)
		if got := b.State(); !errors.Is(got.Err, context.DeadlineExceeded) || !got.At.Equal(time.Now()) {
			t.Errorf("the last failure is %v at %s", got.Err, got.At)
		}
	})
}

func TestTimeoutOption(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.script(nil, time.Second-moment, true)
		b.decide(10, false, 10, 10*(time.Second-moment))
		b.primary.script(nil, time.Second+moment, true)
		b.decide(1, true, 1, time.Second)
	}, Timeout(time.Second))
}

// TestAnswerAfterTheDeadline: of a primary that does not heed its context, late answers hold, and count against it.
func TestAnswerAfterTheDeadline(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.script(nil, DefaultTimeout, false)
		b.decide(tripAfter, false, tripAfter, tripAfter*DefaultTimeout)
		b.is(Open, Slow)
		b.decide(100, true, 0, 0)
		time.Sleep(openFor + moment)
		b.decide(1, false, 1, DefaultTimeout)
		b.is(Open, Slow)
	})
}

// TestFailureAfterTheDeadline: an error that took so long is one of waiting, whatever it says.
func TestFailureAfterTheDeadline(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.script(errDown, DefaultTimeout, false)
		b.decide(tripAfter, true, tripAfter, tripAfter*DefaultTimeout)
		b.is(Open, Slow)
	})
}

func TestHalfOpenAsksOnceAtATime(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.script(nil, time.Hour, true)
		b.decide(tripAfter, true, tripAfter, tripAfter*DefaultTimeout)
		time.Sleep(openFor + moment)
		b.primary.most = 0
		before := b.primary.count()
		var waited atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				start := time.Now()
				takeFrom(t, b.Store, b.r, true)
				if time.Since(start) > 0 {
					waited.Add(1)
				}
			})
		}
		all.Wait()
		if waited.Load() != 1 {
			t.Errorf("%d of 50 had to wait, want 1", waited.Load())
		}
		if got := b.primary.count() - before; got != 1 || b.primary.most != 1 {
			t.Errorf("50 decisions called the primary %d times, %d at once, want 1", got, b.primary.most)
		}
	})
}

func TestCallerLeaves(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.script(nil, time.Hour, true)
		for range 2 * tripAfter {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(DefaultTimeout-moment, cancel)
			_, err := b.Take(ctx, b.r)
			mustBe(t, err, store.ErrUnavailable)
			mustBe(t, err, context.Canceled)
			before := b.primary.count()
			_, err = b.Peek(ctx, b.r) // by now it has left
			mustBe(t, err, store.ErrUnavailable)
			mustBe(t, err, context.Canceled)
			if b.primary.count() != before {
				t.Fatal("the primary was asked for a caller who had left")
			}
		}
		b.is(Closed, Serving)
		if got := b.State(); got.Degraded != 0 || got.Err != nil {
			t.Errorf("%+v: callers who left are no failures and need no decision", got)
		}

		b.primary.script(nil, 0, true)
		g := takeFrom(t, b.Store, b.r, false)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := b.Settle(ctx, g.Receipt(b.r), 5); err != nil {
			t.Errorf("Settle after the caller has left: %v", err)
		}
		if got := spent(t, b.primary.inner, b.r); got != 5 {
			t.Errorf("settled to 5: %d spent", got)
		}
	})
}

// TestCallersDeadline: a very short one is no fair chance, and the fallback decides all the same.
func TestCallersDeadline(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.script(nil, time.Hour, true)
		within := func(d time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			start := time.Now()
			if g, err := b.Take(ctx, b.r); err != nil || !g.Degraded {
				t.Fatalf("Take: %+v, %v", g, err)
			}
			if got := time.Since(start); got != min(d, DefaultTimeout) {
				t.Fatalf("within %s: it took %s", d, got)
			}
		}
		for range 100 {
			within(fairChance - moment)
		}
		b.is(Closed, Serving)
		within(10 * DefaultTimeout)
		for range tripAfter - 1 {
			time.Sleep(tripOver)
			within(fairChance)
		}
		b.is(Open, Slow)
	})
}

// TestSettleKeepsToTheDeadline, but not to a cancellation.
func TestSettleKeepsToTheDeadline(t *testing.T) {
	inBubble(t, func(b *bench) {
		g := takeFrom(t, b.Store, b.r, false)
		b.primary.script(nil, time.Hour, true)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		cancel()
		start := time.Now()
		err := b.Settle(ctx, g.Receipt(b.r), 0)
		mustBe(t, err, context.DeadlineExceeded)
		if got := time.Since(start); got != 10*time.Millisecond {
			t.Errorf("Settle took %s, the deadline was in 10ms", got)
		}
	})
}

// TestAnswersThatAreNoFailures: each of them says that the primary is there.
func TestAnswersThatAreNoFailures(t *testing.T) {
	t.Run("cost", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.primary.set(limit.ErrCost)
			for range 2 * tripAfter {
				_, err := b.Take(context.Background(), b.r)
				mustBe(t, err, limit.ErrCost)
				time.Sleep(tripOver)
			}
			b.is(Closed, Serving)
			if got := b.State(); got.Degraded != 0 {
				t.Errorf("the fallback decided %d times", got.Degraded)
			}
		})
	})
	t.Run("refusal", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.r.Cost = b.r.Rule.Burst()
			for range 2 * tripAfter {
				b.decide(1, false, 1, 0)
				time.Sleep(tripOver)
			}
			b.is(Closed, Serving)
		})
	})
}

// TestSaturated: the fallback decides, and the circuit stays closed, because the primary is well.
func TestSaturated(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.set(fmt.Errorf("%w: 100 wait", store.ErrSaturated))
		for range 2 * tripAfter {
			b.decide(1, true, 1, 0)
			time.Sleep(tripOver)
		}
		b.is(Closed, Serving)
		_, err := New(b.primary, quiet()).Take(context.Background(), b.r)
		mustBe(t, err, store.ErrSaturated)
		mustNotBe(t, err, store.ErrUnavailable) // or the failure mode could let it pass
	})
}

// TestBreakerOfThePrimary: what it keeps away shows nothing as long as other calls are answered, as by the healthy nodes of a
// Cluster, or while the circuit is half-open: then the very next answer counts.
func TestBreakerOfThePrimary(t *testing.T) {
	inBubble(t, func(b *bench) {
		errOpen := fmt.Errorf("%w: %w", store.ErrUnavailable, gobreaker.ErrOpenState)
		b.decide(1, false, 1, 0)
		for range 10 {
			b.primary.set(errOpen)
			b.decide(2*tripAfter, true, 2*tripAfter, 0)
			time.Sleep(openFor - moment)
			b.decide(2*tripAfter, true, 2*tripAfter, 0)
			b.primary.set(nil)
			b.decide(1, false, 1, 0)
		}
		b.is(Closed, Serving)

		b.primary.script(nil, time.Hour, true)
		b.decide(1, true, 1, DefaultTimeout)
		b.primary.set(errOpen)
		time.Sleep(openFor)
		b.decide(1, true, 1, 0)
		b.is(Closed, Serving)
		b.decide(tripAfter-2, true, tripAfter-2, 0)
		b.is(Open, Slow) // which is what the breaker of the primary has seen
		if got := b.State(); !errors.Is(got.Err, context.DeadlineExceeded) {
			t.Errorf("the last failure is %v", got.Err)
		}

		time.Sleep(openFor + moment)
		b.primary.set(fmt.Errorf("%w: %w", store.ErrUnavailable, gobreaker.ErrTooManyRequests))
		b.decide(10, true, 10, 0)
		b.is(HalfOpen, Slow)
		b.primary.set(nil)
		b.decide(10, false, 10, 0)
		b.is(Closed, Serving)
	})
}

// TestBreakerOfThePrimaryAtTheStart: nobody has been answered yet.
func TestBreakerOfThePrimaryAtTheStart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.set(fmt.Errorf("%w: %w", store.ErrUnavailable, gobreaker.ErrOpenState))
		b.decide(tripAfter-1, true, tripAfter-1, 0)
		time.Sleep(tripOver)
		b.decide(10, true, 1, 0)
		b.is(Open, Down)
		if got := b.State(); !errors.Is(got.Err, gobreaker.ErrOpenState) {
			t.Errorf("the last failure is %v", got.Err)
		}
	})
}

// TestForeignErrors: whatever a store returns against its contract is an outage.
func TestForeignErrors(t *testing.T) {
	foreign := errors.New("boom")
	inBubble(t, func(b *bench) {
		b.fallback = nil
		b.primary.set(foreign)
		for range tripAfter {
			_, err := b.Take(context.Background(), b.r)
			mustBe(t, err, store.ErrUnavailable)
			mustBe(t, err, foreign)
			time.Sleep(tripOver)
		}
		b.is(Open, Down)
	})
}

func TestPanicOfThePrimary(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := New(panicking{}, quiet(), Fallback(b.primary, 2))
		for range tripAfter {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic did not pass through")
					}
				}()
				_, _ = s.Take(context.Background(), b.r)
			}()
			time.Sleep(tripOver)
		}
		takeFrom(t, s, b.r, true)
	})
}

type panicking struct{ store.RateStore }

func (panicking) Take(context.Context, store.Request) (store.Grant, error) { panic("boom") }

func TestWithoutFallback(t *testing.T) {
	t.Parallel()
	r := request(t, "a", limit.PerDay(10))
	synctest.Test(t, func(t *testing.T) {
		primary := newScripted()
		s := New(primary, quiet())
		primary.script(nil, time.Hour, true)
		for range tripAfter {
			_, err := s.Take(context.Background(), r)
			mustBe(t, err, store.ErrUnavailable)
			time.Sleep(moment)
		}
		ctx := context.Background()
		_, err := s.Take(ctx, r)
		_, errPeek := s.Peek(ctx, r)
		for _, err := range []error{err, errPeek, s.Reset(ctx, r.Key), s.Settle(ctx, store.Receipt{Request: r}, 1)} {
			mustBe(t, err, store.ErrUnavailable)
			mustNotBe(t, err, context.DeadlineExceeded) // this call has not waited
			if !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
				t.Errorf("%q does not say why", err)
			}
		}
		if primary.count() != tripAfter {
			t.Errorf("the primary was called %d times, want %d", primary.count(), tripAfter)
		}
	})
}
