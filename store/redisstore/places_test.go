package redisstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/store"
)

// full returns two places that are taken, for calls of 100 ms.
func full(t *testing.T) (*places, context.Context) {
	p := newPlaces(&redis.Options{PoolSize: 5, MaxActiveConns: 2}, 100*time.Millisecond)
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.timeout, errOverdue)
	t.Cleanup(cancel)
	for range 2 {
		if err := p.enter(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return p, ctx
}

func TestQueue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		took      time.Duration // by answers before
		leaves    time.Duration // when a place is given back, 0 for never
		answers   time.Duration // when another call is answered, 0 for never
		cancels   time.Duration // when the caller hangs up, 0 for never
		want      error
		ours      bool
		waits     time.Duration
		tolerance time.Duration
	}{
		{name: "nothing is answered", want: store.ErrUnavailable, waits: 100 * time.Millisecond},
		{name: "others are answered", answers: time.Millisecond, want: store.ErrSaturated, ours: true, waits: 50 * time.Millisecond},
		{name: "others are answered late", answers: 80 * time.Millisecond, want: store.ErrSaturated, ours: true, waits: 80 * time.Millisecond, tolerance: 5 * time.Millisecond},
		{name: "answers take long", took: 45 * time.Millisecond, answers: time.Millisecond, want: store.ErrSaturated, ours: true, waits: 10 * time.Millisecond},
		{name: "answers take too long to wait", took: 60 * time.Millisecond, answers: time.Millisecond, want: store.ErrSaturated, ours: true, waits: time.Millisecond, tolerance: 5 * time.Millisecond},
		{name: "a place is given back", leaves: 49 * time.Millisecond, waits: 49 * time.Millisecond},
		{name: "a place is given back late", leaves: 51 * time.Millisecond, answers: 20 * time.Millisecond, want: store.ErrSaturated, ours: true, waits: 50 * time.Millisecond},
		{name: "the caller leaves", cancels: 10 * time.Millisecond, want: context.Canceled, ours: true, waits: 10 * time.Millisecond},
		{name: "the caller leaves later", answers: time.Millisecond, cancels: 40 * time.Millisecond, want: context.Canceled, ours: true, waits: 40 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, ctx := full(t)
				p.took.Store(int64(tc.took))
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				start := time.Now()
				for after, f := range map[time.Duration]func(){
					tc.leaves: p.leave, tc.answers: func() { p.last.Store(int64(time.Since(p.epoch))) }, tc.cancels: cancel,
				} {
					if after > 0 {
						time.AfterFunc(after, f)
					}
				}
				err := p.enter(ctx)
				if waited := time.Since(start) - tc.waits; waited < 0 || waited > tc.tolerance {
					t.Errorf("waited %s, want %s", time.Since(start), tc.waits)
				}
				if tc.want == nil {
					if err != nil {
						t.Errorf("error is %v", err)
					}
					return
				}
				mustBe(t, err, tc.want)
				if f, ok := errors.AsType[*failure](err); !ok || f.ours != tc.ours || errors.Is(err, store.ErrUnavailable) == errors.Is(err, store.ErrSaturated) {
					t.Errorf("%+v, want one that says ours: %v", err, tc.ours)
				}
				time.Sleep(time.Second) // let the timers end
			})
		})
	}
}

func TestQueueServesInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, ctx := full(t)
		served := make(chan int, 10)
		for i := range cap(served) {
			go func() {
				if err := p.enter(ctx); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
				served <- i
			}()
			synctest.Wait()
		}
		for i := range cap(served) {
			p.leave()
			if got := <-served; got != i {
				t.Errorf("caller %d was served as number %d", got, i)
			}
		}
	})
}

// TestBreakerTrips: a burst of failures is one event, a row that lasts is an outage.
func TestBreakerTrips(t *testing.T) {
	t.Parallel()
	fail := func() (any, error) { return nil, &failure{kind: store.ErrUnavailable, cause: errOverdue} }
	for _, tc := range []struct {
		name string
		run  func(b *breaker)
		want bool
	}{
		{"1000 at once", func(b *breaker) {
			for range 1000 {
				_, _ = b.run(fail)
			}
		}, false},
		{"five in 200 ms", func(b *breaker) {
			for range tripAfter {
				_, _ = b.run(fail)
				time.Sleep(tripOver / (tripAfter - 1))
			}
		}, true},
		{"four in a second", func(b *breaker) {
			for range tripAfter - 1 {
				_, _ = b.run(fail)
				time.Sleep(tripOver)
			}
		}, false},
		{"with a success between", func(b *breaker) {
			for range 10 {
				for range tripAfter {
					_, _ = b.run(fail)
				}
				time.Sleep(tripOver)
				_, _ = b.run(func() (any, error) { return 0, nil })
			}
		}, false},
		{"saturated for a second", func(b *breaker) {
			for range 100 {
				_, _ = b.run(func() (any, error) {
					return nil, &failure{kind: store.ErrSaturated, cause: errCrowded, ours: true}
				})
				time.Sleep(10 * time.Millisecond)
			}
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				logged := new(record)
				set := apply([]Option{logged.logger()})
				b := newBreaker("test", set.logger, newBackground())
				tc.run(b)
				if b.tripped() != tc.want || (logged.count("left alone") == 1) != tc.want {
					t.Errorf("tripped: %v, want %v; logged:\n%s", b.tripped(), tc.want, logged.text.String())
				}
			})
		})
	}
}
