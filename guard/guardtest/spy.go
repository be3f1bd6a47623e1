package guardtest

import (
	"context"
	"slices"
	"sync"

	"github.com/trafficguard-go/trafficguard/guard"
)

// A Spy is a policy that does as it is told and records what it saw. The zero value admits every request. Set
// the fields before the first request; the methods are safe for concurrent use. It must not be copied.
type Spy struct {
	// Name is the policy's name; "" means that it has none.
	Name string
	// Ignore makes Supports say no.
	Ignore bool
	// Decision and Err are what Before returns.
	Decision guard.Decision
	Err      error
	// Needs is what the policy requires.
	Needs guard.Requirement
	// Mode is the policy's own failure mode.
	Mode guard.FailureMode
	// OnBefore, if not nil, decides in place of Decision and Err.
	OnBefore func(ctx context.Context, x guard.Exchange) (guard.Decision, error)
	// OnAfter, if not nil, runs in After and makes its result.
	OnAfter func(ctx context.Context, x guard.Exchange, d guard.Decision, o guard.Outcome) error
	// Log, if not nil, receives "before NAME" and "after NAME". Spies that share one show the order.
	Log *Log

	mu       sync.Mutex
	routes   []guard.Route
	outcomes []guard.Outcome
}

// PolicyName returns Name.
func (s *Spy) PolicyName() string { return s.Name }

// Requires returns Needs.
func (s *Spy) Requires() guard.Requirement { return s.Needs }

// FailureMode returns Mode.
func (s *Spy) FailureMode() guard.FailureMode { return s.Mode }

// Supports reports whether the spy was not told to ignore requests.
func (s *Spy) Supports(guard.Exchange) bool { return !s.Ignore }

// Before records the route and decides as told.
func (s *Spy) Before(ctx context.Context, x guard.Exchange) (guard.Decision, error) {
	s.mu.Lock()
	s.routes = append(s.routes, x.Route())
	s.mu.Unlock()
	s.Log.Add("before " + s.Name)
	if s.OnBefore != nil {
		return s.OnBefore(ctx, x)
	}
	return s.Decision, s.Err
}

// After records the outcome.
func (s *Spy) After(ctx context.Context, x guard.Exchange, d guard.Decision, o guard.Outcome) error {
	s.mu.Lock()
	s.outcomes = append(s.outcomes, o)
	s.mu.Unlock()
	s.Log.Add("after " + s.Name)
	if s.OnAfter != nil {
		return s.OnAfter(ctx, x, d, o)
	}
	return nil
}

// Routes returns the route of every request that Before saw, in order.
func (s *Spy) Routes() []guard.Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.routes)
}

// Outcomes returns the outcome of every After, in order.
func (s *Spy) Outcomes() []guard.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.outcomes)
}

// A Log is a list of lines, safe for concurrent use. The zero value is empty. A nil *Log forgets everything.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Add appends a line.
func (l *Log) Add(line string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// Lines returns what was added so far.
func (l *Log) Lines() []string {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}
