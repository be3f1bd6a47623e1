package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// DefaultTimeout is how long a call may take unless [Timeout] says otherwise.
const DefaultTimeout = 50 * time.Millisecond

// An Option changes how a [Store] works.
type Option func(*settings)

type settings struct {
	timeout time.Duration
	logger  *slog.Logger
	faults  []error
}

func apply(opts []Option) settings {
	s := settings{timeout: DefaultTimeout, logger: slog.Default()}
	for _, o := range opts {
		if o == nil {
			s.faults = append(s.faults, errors.New("an option is nil"))
			continue
		}
		o(&s)
	}
	return s
}

// Timeout sets how long a call may take, everything included. The default is [DefaultTimeout]. A context that ends
// earlier ends the call earlier. It must be more than zero.
func Timeout(d time.Duration) Option {
	return func(s *settings) {
		if d <= 0 {
			s.faults = append(s.faults, fmt.Errorf("timeout %s: must be more than zero", d))
			return
		}
		s.timeout = d
	}
}

// Logger sets where the store reports that a server became unavailable or came back, and what is misconfigured. The
// default is [slog.Default] as it is when the store is made. It must not be nil.
func Logger(l *slog.Logger) Option {
	return func(s *settings) {
		if l == nil {
			s.faults = append(s.faults, errors.New("the logger is nil"))
			return
		}
		s.logger = l
	}
}
