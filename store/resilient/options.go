package resilient

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/trafficguard-go/trafficguard/store"
)

// DefaultTimeout is how long a call of the primary may take unless [Timeout] says otherwise.
const DefaultTimeout = 50 * time.Millisecond

// An Option configures a [Store]. Of two that set the same, the later holds.
type Option func(*settings)

type settings struct {
	timeout  time.Duration
	fallback *fallback // nil: none
	logger   *slog.Logger
	onChange func(Change)
	faults   []error
}

func apply(primary store.RateStore, opts []Option) (settings, error) {
	s := settings{timeout: DefaultTimeout, logger: slog.Default(), onChange: func(Change) {}}
	s.checkStore("primary", primary)
	for i, opt := range opts {
		if opt == nil {
			s.fault("option %d is nil", i+1)
			continue
		}
		opt(&s)
	}
	return s, errors.Join(s.faults...)
}

func (s *settings) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}

// checkStore refuses a store within a store: of the two, each would take the other's receipts for its own.
func (s *settings) checkStore(role string, rs store.RateStore) {
	if rs == nil {
		s.fault("the %s is nil", role)
	}
	if _, nested := rs.(*Store); nested {
		s.fault("the %s is a resilient.Store itself: use one, with one fallback", role)
	}
}

// Timeout sets how long a call of the primary may take. Default: [DefaultTimeout]. A context that ends earlier ends the call
// earlier. The primary must end a call when its context ends, as every store should: it is not left alone in a goroutine, so
// one that does not is waited for, and counts as slow. d must be more than zero.
func Timeout(d time.Duration) Option {
	return func(s *settings) {
		if d <= 0 {
			s.fault("Timeout(%s): must be more than zero", d)
		}
		s.timeout = d
	}
}

// Fallback has rs, usually a memory.New() of its own, decide while the primary does not answer, with the share that this
// program has of each limit as one of so many instances. Default: no fallback; errors are returned. rs must not be nil, and
// instances must be at least 1.
func Fallback(rs store.RateStore, instances int) Option {
	return func(s *settings) {
		if instances < 1 {
			s.fault("Fallback with %d instances: must be at least 1", instances)
		}
		s.setFallback(rs, func() int { return instances })
	}
}

// FallbackShare is [Fallback] for a number of instances that changes. It is asked for each decision of the fallback, so it must
// be quick and safe for concurrent use; less than 1 counts as 1. Receipts stay exact when it changes; a subject keeps what it
// owes, at most a burst of its new share.
func FallbackShare(rs store.RateStore, instances func() int) Option {
	return func(s *settings) {
		if instances == nil {
			s.fault("FallbackShare: the number of instances is nil: must be a function")
		}
		s.setFallback(rs, instances)
	}
}

func (s *settings) setFallback(rs store.RateStore, instances func() int) {
	s.checkStore("fallback", rs)
	s.fallback = newFallback(rs, instances)
}

// OnChange has f told of each [Change], in order and one at a time, within a request that came upon it: f must be quick. It may
// use the store. It must not be nil.
func OnChange(f func(Change)) Option {
	return func(s *settings) {
		if f == nil {
			s.fault("OnChange(nil): must be a function")
		}
		s.onChange = f
	}
}

// Logger sets where each [Change] is logged: once when it begins, and once, with the number of failures and of degraded
// decisions, when it is over. Default: [slog.Default] as it is when the store is made. It must not be nil.
func Logger(l *slog.Logger) Option {
	return func(s *settings) {
		if l == nil {
			s.fault("Logger(nil): must be a logger")
		}
		s.logger = l
	}
}
