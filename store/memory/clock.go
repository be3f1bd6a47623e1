package memory

import "time"

// A clock tells the time in microseconds since 1970.
type clock struct {
	source func() time.Time // nil: the system's
	start  time.Time
	micros int64 // of start
}

func newClock(source func() time.Time) clock {
	start := time.Now()
	return clock{source: source, start: start, micros: start.UnixMicro()}
}

func (c *clock) now() int64 {
	if c.source != nil {
		return c.source().UnixMicro()
	}
	return c.micros + time.Since(c.start).Microseconds() // by the monotonic reading in start
}
