package redisstore

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/trafficguard-go/trafficguard/store"
)

const (
	// tripAfter failures in a row a server is not asked for openFor, and then by one call at a time until one succeeds.
	tripAfter = 5
	openFor   = time.Second
)

// A breaker keeps calls away from a server that does not answer.
type breaker struct {
	circuit *gobreaker.CircuitBreaker[any]
	logger  *slog.Logger
	// news is a change that is still to be logged: gobreaker tells of it while it holds its lock.
	news atomic.Pointer[gobreaker.State]
}

func newBreaker(name string, logger *slog.Logger) *breaker {
	b := &breaker{logger: logger.With("server", name)}
	b.circuit = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		Name:         name,
		Timeout:      openFor,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		IsSuccessful: func(err error) bool { return !errors.Is(err, store.ErrUnavailable) || redirected(err) },
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

// run calls f, whose errors are failures, unless the breaker is open.
func (b *breaker) run(f func() (any, error)) (any, error) {
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

// redirected says whether a node of a Cluster has named another, in good health.
func redirected(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask
}
