package memory

import "sync/atomic"

const (
	// leastSlots and mostSlots bound what one request sweeps, but for the rest of its last shard: some 50 µs of work where
	// there are many requests, at most about a millisecond where there are few.
	leastSlots = 1 << 14
	mostSlots  = 1 << 18
	// slotsPerMicro is how fast sweeping may go on the whole: at a few nanoseconds each it takes a fiftieth of a core.
	slotsPerMicro = 4
	// leastPause and mostPause bound the time between two sweeps, in microseconds. A longer pause can only come of a
	// clock that went back.
	leastPause = 1_000
	mostPause  = 1_000_000
)

// A sweeper knows when to sweep next, and where.
type sweeper struct {
	next   atomic.Int64
	cursor atomic.Uint32
}

// sweepIfDue sweeps the shards whose turn it is, if it is time, and reports whether it was. No shard may be locked.
func (s *Store) sweepIfDue(now int64) bool {
	next := s.sweeper.next.Load()
	if now < next && next-now <= mostPause {
		return false
	}
	if !s.sweeper.next.CompareAndSwap(next, now+leastPause) {
		return false // another request sweeps
	}
	most := min(mostSlots, leastSlots+slotsPerMicro*max(0, now-next))
	slots := int64(0)
	for n := 0; n < len(s.shards) && slots < most; n++ {
		sh := &s.shards[int(s.sweeper.cursor.Add(1))&(len(s.shards)-1)]
		sh.mu.Lock()
		slots += int64(len(sh.table))
		s.kept.Add(-int64(sh.tidy(now, 0)))
		sh.mu.Unlock()
	}
	s.sweeper.next.Store(now + max(leastPause, slots/slotsPerMicro))
	return true
}
