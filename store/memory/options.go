package memory

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/trafficguard-go/trafficguard/store"
)

// An Option configures a [Store].
type Option func(*config)

type config struct {
	maxKeys    int
	now        func() time.Time // nil: the process's own clock
	onOverflow func(store.Key)
	faults     []error
}

func configure(opts []Option) config {
	c := config{maxKeys: 1 << 22, onOverflow: warn}
	for i, opt := range opts {
		if opt == nil {
			c.faults = append(c.faults, fmt.Errorf("option %d is nil", i+1))
			continue
		}
		opt(&c)
	}
	if len(c.faults) > 0 {
		panic(fmt.Errorf("memory.New: %w", errors.Join(c.faults...)))
	}
	return c
}

// MaxKeys bounds how many subjects are kept at a time, and so the memory, at 32 to 64 bytes each. Default: 4,194,304. While
// the store is full of subjects that still owe something, new ones share one bucket per policy, route and limit; see
// [OnOverflow]. n must be at least 1.
//
// All policies on one store share it: a flood of new subjects of one fills it for the others, too. Give what guards logins a
// store of its own.
func MaxKeys(n int) Option {
	return func(c *config) {
		if n < 1 {
			c.faults = append(c.faults, fmt.Errorf("MaxKeys(%d): must be at least 1", n))
		}
		c.maxKeys = n
	}
}

// Clock has the store take the time from now: for tests and simulations. now is called once for each decision, with a
// lock held, must be safe for concurrent use, and must not tell a time before 1970. If it goes back, so does the store's
// time. Default: the system's time when the store was made, plus what has elapsed since, which never goes back
// whatever happens to the system's time.
func Clock(now func() time.Time) Option {
	return func(c *config) {
		if now == nil {
			c.faults = append(c.faults, errors.New("Clock(nil): must be a function"))
		}
		c.now = now
	}
}

// OnOverflow has f told that the store is full and that new subjects share a bucket: at most once a minute, with the key
// of one of them without Kind and Subject. f runs within the request, must be quick and safe for concurrent use. Default:
// a warning to [slog.Default].
func OnOverflow(f func(store.Key)) Option {
	return func(c *config) {
		if f == nil {
			c.faults = append(c.faults, errors.New("OnOverflow(nil): must be a function"))
		}
		c.onOverflow = f
	}
}

func warn(k store.Key) {
	slog.Warn("the store of rate limits is full: new subjects share one bucket per policy",
		"policy", k.Policy, "method", k.Method, "pattern", k.Pattern)
}
