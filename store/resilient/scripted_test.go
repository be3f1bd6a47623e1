package resilient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

var errDown = fmt.Errorf("%w: connection refused", store.ErrUnavailable)

// A scripted store is one in memory that fails when it is told to.
type scripted struct {
	inner *memory.Store

	mu     sync.Mutex
	err    error         // nil: it answers
	takes  time.Duration // how long a call takes
	heeds  bool          // whether a call ends with its context
	calls  int
	inside int // calls under way
	most   int // of inside
}

func newScripted() *scripted { return &scripted{inner: memory.New(), heeds: true} }

// set has calls fail with err, nil for not at all.
func (s *scripted) set(err error) { s.script(err, 0, true) }

func (s *scripted) script(err error, takes time.Duration, heeds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.takes, s.heeds = err, takes, heeds
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *scripted) enter() (takes time.Duration, heeds bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.inside++
	s.most = max(s.most, s.inside)
	return s.takes, s.heeds, s.err
}

func (s *scripted) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
}

// call is what happens before the store in memory is asked.
func (s *scripted) call(ctx context.Context) error {
	takes, heeds, err := s.enter()
	defer s.leave()
	if !heeds {
		time.Sleep(takes)
		return err
	}
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return errors.Join(store.ErrUnavailable, ctx.Err())
	}
	return err
}

func (s *scripted) Take(ctx context.Context, r store.Request) (store.Grant, error) {
	if err := s.call(ctx); err != nil {
		return store.Grant{}, err
	}
	return s.inner.Take(ctx, r)
}

func (s *scripted) Peek(ctx context.Context, r store.Request) (limit.Verdict, error) {
	if err := s.call(ctx); err != nil {
		return limit.Verdict{}, err
	}
	return s.inner.Peek(ctx, r)
}

func (s *scripted) Reset(ctx context.Context, k store.Key) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.inner.Reset(ctx, k)
}

func (s *scripted) Settle(ctx context.Context, r store.Receipt, actual int64) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.inner.Settle(ctx, r, actual)
}
