package storetest

import (
	"sync/atomic"
	"time"
)

// A Clock is a time that moves only when it is told to. It is safe for concurrent use. Use [NewClock].
type Clock struct {
	micros atomic.Int64
}

// NewClock returns a clock that stands at an instant in 2027 that is no whole second.
func NewClock() *Clock {
	c := new(Clock)
	c.Set(time.Date(2027, time.March, 14, 1, 59, 26, 535_897_000, time.UTC))
	return c
}

// Now returns the clock's time, in whole microseconds.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.micros.Load()) }

// Advance moves the clock by d, cut to whole microseconds; back if d is negative.
func (c *Clock) Advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// Set moves the clock to t, cut to whole microseconds.
func (c *Clock) Set(t time.Time) { c.micros.Store(t.UnixMicro()) }
