package resilient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

const (
	// After tripAfter failures in a row, over tripOver at least, the primary is not asked for openFor, and then by one call at a
	// time until it answers. Many calls that fail at one moment are one event, such as a pause of this process.
	tripAfter = 5
	tripOver  = 200 * time.Millisecond
	openFor   = time.Second
	// fairChance is the time without an answer that shows something, where the caller allows no more.
	fairChance = 5 * time.Millisecond
)

// What a call tells the circuit, if it is no success.
var (
	errFailed  = errors.New("failed")
	errNothing = errors.New("nothing is known")
)

func newCircuit(h *health) *gobreaker.CircuitBreaker[struct{}] {
	var row time.Time // when the row of failures began; gobreaker's lock guards it
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			now := time.Now()
			if c.ConsecutiveFailures == 1 {
				row = now
			}
			return c.ConsecutiveFailures >= tripAfter && now.Sub(row) >= tripOver
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errNothing) },
		OnStateChange: func(_ string, from, to gobreaker.State) { h.switched(from, to) },
	})
}

// kept reports whether err says that a circuit breaker kept a call away from where it should have gone.
func kept(err error) bool {
	return errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}

// ask has f call the primary, within the deadline, unless the circuit is open. answered is false if the primary did not
// answer: then somebody else may. An answer can be an error, too.
func (s *Store) ask(ctx context.Context, f func(context.Context) error) (answered bool, err error) {
	if left(ctx) {
		return false, fmt.Errorf("%w: resilient: %w", store.ErrUnavailable, ctx.Err())
	}
	_, told := s.circuit.Execute(func() (struct{}, error) {
		start := time.Now()
		within, cancel := withTimeout(ctx, s.timeout)
		defer cancel()
		err = f(within)
		var tell error
		answered, tell = s.judge(ctx, err, start)
		return struct{}{}, tell
	})
	s.health.tell()
	if !answered {
		if kept(told) {
			return false, s.health.outage.Load()
		}
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrSaturated) {
			err = fmt.Errorf("%w: resilient: %w", store.ErrUnavailable, err)
		}
	}
	return answered, err
}

// judge says whether err, of a call since start, is an answer, and what the circuit is to be told.
func (s *Store) judge(ctx context.Context, err error, start time.Time) (answered bool, tell error) {
	now := time.Now()
	took := now.Sub(start)
	switch {
	case errors.Is(err, store.ErrMisconfigured):
		s.health.misconfigured(err)
		return true, nil
	case errors.Is(err, store.ErrSaturated):
		return false, errNothing
	case err == nil, errors.Is(err, limit.ErrCost):
		if took >= s.timeout {
			s.health.failed(Slow, errLate)
			return true, errFailed
		}
		s.health.answered(now)
		return true, nil
	case left(ctx), ctx.Err() != nil && took < min(fairChance, s.timeout/2):
		return false, errNothing
	case kept(err):
		return false, s.judgeKept(err)
	default:
		s.health.failed(kindOf(err, took >= s.timeout), err)
		return false, errFailed
	}
}

// judgeKept says what the circuit is to be told of an error of the primary's own circuit breaker. Where other calls have just been
// answered, such as by the other nodes of a Cluster, that breaker does what is needed. And the circuit had better stay half-open
// than be out of step with it.
func (s *Store) judgeKept(err error) error {
	if s.health.answeredWithin(openFor) || s.circuit.State() == gobreaker.StateHalfOpen {
		return errNothing
	}
	s.health.kept(err)
	return errFailed
}

// standsIn reports whether the fallback is to decide what the primary could not. A deadline that has passed is no obstacle: it
// may be that of the time to ask other machines.
func (s *Store) standsIn(ctx context.Context) bool { return s.fallback != nil && !left(ctx) }

// left reports whether the caller has left.
func left(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// uncancelled returns a context that ends at ctx's deadline only.
func uncancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline)
}

// withTimeout bounds ctx by timeout, if it is not bounded so already.
func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}
