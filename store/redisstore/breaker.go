package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/trafficguard-go/trafficguard/store"
)

const (
	// After tripAfter failures in a row, over tripOver at least, a server is not asked for openFor, and then by the store alone
	// until it answers. Many calls that fail at one moment are one event, such as a pause of this process.
	tripAfter = 5
	tripOver  = 200 * time.Millisecond
	openFor   = time.Second
)

// A breaker keeps calls away from a server that does not answer.
type breaker struct {
	circuit *gobreaker.CircuitBreaker[any]
	logger  *slog.Logger
	// news is a change that is still to be logged: gobreaker tells of it while it holds its lock.
	news atomic.Pointer[gobreaker.State]
	row  time.Time // when the row of failures began; gobreaker's lock guards it

	background *background
	mending    atomic.Bool
}

func newBreaker(name string, logger *slog.Logger, bg *background) *breaker {
	b := &breaker{logger: logger.With("server", name), background: bg}
	b.circuit = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		Name:         name,
		Timeout:      openFor,
		ReadyToTrip:  b.trips,
		IsSuccessful: answer,
		IsExcluded: func(err error) bool {
			f, ok := errors.AsType[*failure](err)
			return ok && f.ours
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if from == gobreaker.StateClosed || to == gobreaker.StateClosed { // not each failed try in between
				b.news.Store(&to)
			}
		},
	})
	return b
}

func (b *breaker) trips(c gobreaker.Counts) bool {
	now := time.Now()
	if c.ConsecutiveFailures == 1 {
		b.row = now
	}
	return c.ConsecutiveFailures >= tripAfter && now.Sub(b.row) >= tripOver
}

// run calls f, whose errors are failures, unless the breaker is open.
func (b *breaker) run(f func() (any, error)) (any, error) {
	if b.tripped() {
		return nil, &failure{kind: store.ErrUnavailable, cause: gobreaker.ErrOpenState}
	}
	return b.execute(f)
}

// execute is run for what may also be the try that closes the breaker.
func (b *breaker) execute(f func() (any, error)) (any, error) {
	reply, err := b.circuit.Execute(f)
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = &failure{kind: store.ErrUnavailable, cause: err}
	}
	if news := b.news.Swap(nil); news != nil {
		if *news == gobreaker.StateOpen {
			b.logger.Warn("redisstore: the server does not answer and is left alone for a while", "error", err)
		} else {
			b.logger.Info("redisstore: the server answers again")
		}
	}
	return reply, err
}

// mend is called after a failure. It has try find out whether the server answers, in the background, since that may take
// longer than a caller can wait, and once at a time. An answer ends the row of failures, or closes a breaker that is due to try
// again; then comes next.
func (b *breaker) mend(try func(context.Context) error, next func(context.Context)) {
	if b.circuit.State() == gobreaker.StateOpen || !b.mending.CompareAndSwap(false, true) {
		return
	}
	started := b.background.start(func(ctx context.Context) {
		defer b.mending.Store(false)
		if _, err := b.execute(func() (any, error) { return nil, try(ctx) }); answer(err) {
			next(ctx)
		}
	})
	if !started {
		b.mending.Store(false)
	}
}

// tripped reports whether calls are kept away.
func (b *breaker) tripped() bool { return b.circuit.State() != gobreaker.StateClosed }

// answer reports whether err, nil included, is something that a server in good health says.
func answer(err error) bool { return !errors.Is(err, store.ErrUnavailable) || redirected(err) }

// redirected says whether a node of a Cluster has named another, in good health.
func redirected(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask
}
