package resilient

import (
	"context"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

var (
	_ store.RateStore = (*Store)(nil)
	_ store.Local     = (*Store)(nil)
)

var errNoFallback = fmt.Errorf("%w: resilient: the receipt is a fallback's, and there is none", store.ErrMisconfigured)

// A Store is a [store.RateStore] that asks a primary and, where that does not answer, a fallback. Make it with [New]. It is
// safe for concurrent use if both are. It closes neither of them.
type Store struct {
	primary  store.RateStore
	fallback *fallback // nil: none
	timeout  time.Duration
	circuit  *gobreaker.CircuitBreaker[struct{}]
	health   *health
}

// New returns a store that asks primary. It panics if primary is nil or an option is invalid, with all that is wrong with
// any of them.
func New(primary store.RateStore, opts ...Option) *Store {
	set, err := apply(primary, opts)
	if err != nil {
		panic(fmt.Errorf("resilient.New: %w", err))
	}
	h := newHealth(&set)
	return &Store{primary: primary, fallback: set.fallback, timeout: set.timeout, circuit: newCircuit(h), health: h}
}

// Local reports whether the primary answers from the memory of this process.
func (s *Store) Local() bool { return store.IsLocal(s.primary) }

// Take charges the cost at the primary or, where that does not answer, at the fallback. What neither could decide has an error that
// is all that theirs are. See [store.RateStore].
func (s *Store) Take(ctx context.Context, r store.Request) (store.Grant, error) {
	if err := r.Check(); err != nil {
		return store.Grant{}, err
	}
	var g store.Grant
	answered, err := s.ask(ctx, func(ctx context.Context) (err error) {
		g, err = s.primary.Take(ctx, r)
		return err
	})
	if answered {
		return g, err
	}
	if !s.standsIn(ctx) {
		return store.Grant{}, err
	}
	within, cancel := s.fallback.within(ctx, s.timeout)
	defer cancel()
	g, failed := s.fallback.take(within, r)
	if failed != nil {
		return store.Grant{}, neither(err, failed)
	}
	s.health.degraded.Add(1)
	return g, nil
}

// Peek says what Take would say, and changes nothing. See [store.RateStore].
func (s *Store) Peek(ctx context.Context, r store.Request) (limit.Verdict, error) {
	if err := r.Check(); err != nil {
		return limit.Verdict{}, err
	}
	var v limit.Verdict
	answered, err := s.ask(ctx, func(ctx context.Context) (err error) {
		v, err = s.primary.Peek(ctx, r)
		return err
	})
	if answered {
		return v, err
	}
	if !s.standsIn(ctx) {
		return limit.Verdict{}, err
	}
	within, cancel := s.fallback.within(ctx, s.timeout)
	defer cancel()
	v, failed := s.fallback.peek(within, r)
	if failed != nil {
		return limit.Verdict{}, neither(err, failed)
	}
	return v, nil
}

// Reset forgets the key at the fallback and at the primary. Where the primary does not answer, that is an error: it still knows
// the key.
func (s *Store) Reset(ctx context.Context, k store.Key) error {
	_, err := s.ask(ctx, func(ctx context.Context) error { return s.primary.Reset(ctx, k) })
	if s.fallback == nil {
		return err
	}
	ctx, cancel := s.fallback.within(ctx, s.timeout)
	defer cancel()
	failed := s.fallback.store.Reset(ctx, k)
	switch {
	case failed == nil:
		return err
	case err == nil:
		return fmt.Errorf("resilient: the fallback: %w", failed)
	default:
		return neither(err, failed)
	}
}

// Settle corrects the charge of r to actual at the store that made it. Where that does not answer, the correction is lost. See
// [store.RateStore].
func (s *Store) Settle(ctx context.Context, r store.Receipt, actual int64) error {
	if err := r.Check(actual); err != nil {
		return err
	}
	if r.Via&viaFallback == 0 {
		ctx, cancel := uncancelled(ctx)
		defer cancel()
		_, err := s.ask(ctx, func(ctx context.Context) error { return s.primary.Settle(ctx, r, actual) })
		return err
	}
	if s.fallback == nil {
		return errNoFallback
	}
	ctx, cancel := s.fallback.within(ctx, s.timeout)
	defer cancel()
	return s.fallback.settle(ctx, r, actual)
}

// neither is the error of both stores. It is what each of them is.
func neither(primary, fallback error) error {
	return fmt.Errorf("%w; the fallback: %w", primary, fallback)
}
