// Package limit is the arithmetic of rate limits: what a limit is, and whether a request of some cost may
// pass now. It is pure: no clock, no I/O, nothing shared. Stores keep the state and bring the time, so that
// the embedded store, Redis and a test's model decide alike to the last microsecond.
//
// # The token bucket
//
// A bucket holds [Limit.Burst] tokens and gains the limit's quota per period, evenly. A request takes as many tokens as
// it costs, or is refused and takes none. What is kept of a subject is one instant, the one at which its
// bucket is full again (the generic cell rate algorithm, ITU-T I.371, calls it the theoretical arrival time),
// as whole microseconds and a fraction whose denominator belongs to the limit. So there is no rounding: a
// client that returns exactly after the wait it was told is admitted, and over any schedule the admitted
// requests are those of exact rational arithmetic.
//
// A bucket that is full lets its burst pass at once and refills meanwhile. 100 a minute can therefore admit
// 199 requests within one minute that begins with a full bucket: set a smaller burst to narrow that.
//
// # Quantum
//
// Time is counted in whole microseconds, debts in fractions of one. A limit whose numbers would not stay below 2^53, as far
// as doubles (and so Redis scripts) are exact, is slowed down until they do, by less than one part in a million. It can
// happen only where the burst times the period in microseconds, after cancelling common factors, exceeds 4.5*10^15, or the
// fraction's denominator exceeds 2^31: at some 52,000 a day and more, with numbers that share no factor. [Rule.Interval] tells.
package limit

import (
	"errors"
	"fmt"
	"time"
)

// Bounds of what can be asked for. They keep every sum within 53 bits.
const (
	maxQuota  = 1_000_000_000
	maxPeriod = 366 * 24 * time.Hour
	maxRefill = 10 * maxPeriod
	maxRate   = 1_000_000_000 // a second
)

// A Limit says how much a subject may do in how much time. It is a value. Build it with [PerSecond] and its
// siblings; the zero Limit is not a limit, and whoever receives it says so.
//
// A Limit carries its own faults: nothing is checked until [Limit.Compile], which reports them all.
type Limit struct {
	quota  int
	period time.Duration
	burst  int
	bursty bool // burst was set
}

// PerSecond allows n a second, and a burst of n.
func PerSecond(n int) Limit { return Limit{quota: n, period: time.Second} }

// PerMinute allows n a minute, and a burst of n.
func PerMinute(n int) Limit { return Limit{quota: n, period: time.Minute} }

// PerHour allows n an hour, and a burst of n.
func PerHour(n int) Limit { return Limit{quota: n, period: time.Hour} }

// PerDay allows n in 24 hours, and a burst of n.
func PerDay(n int) Limit { return Limit{quota: n, period: 24 * time.Hour} }

// Every allows one each d, and a burst of one.
func Every(d time.Duration) Limit { return Limit{quota: 1, period: d} }

// Per allows n each d, and a burst of n.
func Per(n int, d time.Duration) Limit { return Limit{quota: n, period: d} }

// Burst returns l with another burst: how much can be spent at once by a subject that has been idle. It may be
// smaller or larger than the quota.
func (l Limit) Burst(n int) Limit {
	l.burst, l.bursty = n, true
	return l
}

// Share returns the part of l that each of n instances may admit if they cannot count together: the quota and the burst
// divided by n and rounded down, but a quota of at least 1 and a burst of at least atLeast, so that a request of that cost
// can pass. n below 1 counts as 1.
func (l Limit) Share(n int, atLeast int64) Limit {
	n = max(n, 1)
	burst := max(int64(l.size()/n), atLeast, 1)
	l.quota = max(l.quota/n, 1)
	return l.Burst(int(burst))
}

// String returns "100 per 1m0s", with the burst where it is not the quota.
func (l Limit) String() string {
	s := fmt.Sprintf("%d per %s", l.quota, l.period)
	if l.bursty && l.burst != l.quota {
		s += fmt.Sprintf(", burst %d", l.burst)
	}
	return s
}

// size returns the burst in force.
func (l Limit) size() int {
	if l.bursty {
		return l.burst
	}
	return l.quota
}

// Err returns all that is wrong with l, nil if nothing is. Each fault names what is wrong and its value.
func (l Limit) Err() error {
	if l == (Limit{}) {
		return errors.New("the limit is missing: use limit.PerMinute or one of its siblings")
	}
	var faults []error
	if l.quota < 1 || l.quota > maxQuota {
		faults = append(faults, fmt.Errorf("quota %d: must be 1 to %d", l.quota, maxQuota))
	}
	if l.period <= 0 {
		faults = append(faults, fmt.Errorf("period %s: must be more than zero", l.period))
	}
	if l.period > maxPeriod {
		faults = append(faults, fmt.Errorf("period %s: must be at most %s", l.period, maxPeriod))
	}
	if l.bursty && (l.burst < 1 || l.burst > maxQuota) {
		faults = append(faults, fmt.Errorf("burst %d: must be 1 to %d", l.burst, maxQuota))
	}
	// The rest only guards bounds, so floats will do. It looks at no value that is out of its own bounds.
	if l.quota >= 1 && l.period > 0 && float64(l.quota)/l.period.Seconds() > maxRate {
		faults = append(faults, fmt.Errorf("rate %d per %s: must be at most %d a second", l.quota, l.period, maxRate))
	}
	if len(faults) == 0 && l.period.Seconds()*float64(l.size())/float64(l.quota) > maxRefill.Seconds() {
		faults = append(faults, fmt.Errorf("burst %d: takes longer than %s to refill at %d per %s", l.size(), maxRefill, l.quota, l.period))
	}
	return errors.Join(faults...)
}
