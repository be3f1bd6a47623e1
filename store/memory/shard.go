package memory

import (
	"sync"

	"github.com/trafficguard-go/trafficguard/limit"
)

const (
	minTable     = 8
	keysPerShard = 1 << 14 // so that sweeping a shard, or moving it to another table, takes a fraction of a millisecond
	fewShards    = 1 << 8
	maxShards    = 1 << 12
)

// shardsFor returns how many shards a store of that many keys gets: enough for goroutines not to meet, and for none to become
// too large to sweep at once, but not so many that a small capacity has no room for chance.
func shardsFor(maxKeys int) int {
	n := 1
	for n < fewShards && n*1024 <= maxKeys || n < maxShards && n <= (maxKeys-1)/keysPerShard {
		n *= 2
	}
	return n
}

// A slot is the state of one subject: its instant, a limit.State without waste. A slot once taken stays so until its
// table is tidied, because probing must not stop at it; but who is full again equals nobody, so a new subject may have
// the slot at once.
type slot struct {
	hash uint64 // 0: empty
	at   int64
	rest uint32 // the fraction, and in the lowest bit whether the debt is over the burst
}

// state returns the state in e, that of a subject never seen if e is nil.
func (e *slot) state() limit.State {
	if e == nil {
		return limit.State{}
	}
	return limit.State{At: e.at, Frac: int64(e.rest >> 1), Over: e.rest&1 != 0}
}

func (e *slot) set(s limit.State) {
	e.at = s.At
	e.rest = uint32(s.Frac) << 1 //nolint:gosec // a fraction is below a denominator, and those of limit have 31 bits
	if s.Over {
		e.rest |= 1
	}
}

// full reports whether the bucket in e, which is not empty, is full at now under any rule.
func (e *slot) full(now int64) bool { return e.at < now || e.at == now && e.rest>>1 == 0 }

// A shard is a part of the subjects: a table with open addressing and linear probing.
type shard struct {
	mu     sync.Mutex
	table  []slot   // a power of two of them, or none
	used   int      // slots that are not empty
	tidied int64    // when it was tidied last
	_      [16]byte // fills a cache line
}

// mask leaves of a hash the slot at which probing for it begins.
func (sh *shard) mask() uint64 {
	return uint64(len(sh.table) - 1) //nolint:gosec // there is a table, so this is not negative
}

// find returns the slot of hash, nil if there is none.
func (sh *shard) find(hash uint64) *slot {
	if sh.used == 0 {
		return nil
	}
	mask := sh.mask()
	for i := hash & mask; ; i = (i + 1) & mask {
		switch e := &sh.table[i]; e.hash {
		case hash:
			return e
		case 0:
			return nil
		}
	}
}

// reusable returns a slot for hash, which has none, that another subject needs no more; nil if there is none.
func (sh *shard) reusable(hash uint64, now int64) *slot {
	if sh.used == 0 {
		return nil
	}
	mask := sh.mask()
	for i := hash & mask; sh.table[i].hash != 0; i = (i + 1) & mask {
		if sh.table[i].full(now) {
			return &sh.table[i]
		}
	}
	return nil
}

// crowded reports whether one more subject would make probing slow.
func (sh *shard) crowded() bool { return (sh.used+1)*4 > len(sh.table)*3 }

// add gives hash an empty slot. The table must not be crowded.
func (sh *shard) add(e slot) {
	mask := sh.mask()
	i := e.hash & mask
	for sh.table[i].hash != 0 {
		i = (i + 1) & mask
	}
	sh.table[i] = e
	sh.used++
}

// tidy forgets who is full again, makes room for more subjects, and gives the table a size that fits. It returns how
// many were forgotten.
func (sh *shard) tidy(now int64, more int) int {
	before, live := sh.used, 0
	for i := range sh.table {
		if e := &sh.table[i]; e.hash != 0 && !e.full(now) {
			live++
		}
	}
	sh.tidied = now
	switch size := sizeFor(live + more); {
	case size > len(sh.table) || size <= len(sh.table)/4:
		sh.move(size, now)
	case live < before:
		sh.clean(now)
	}
	return before - live
}

// sizeFor returns the size of a table that n subjects fill by half at most.
func sizeFor(n int) int {
	size := minTable
	for size < 2*n {
		size *= 2
	}
	return size
}

// move puts who is not full into a new table.
func (sh *shard) move(size int, now int64) {
	old := sh.table
	sh.table, sh.used = make([]slot, size), 0
	for _, e := range old {
		if e.hash != 0 && !e.full(now) {
			sh.add(e)
		}
	}
}

// clean empties the slots of who is full, without a new table. Each time it closes the gap, so that probing still finds
// all that stand behind it.
func (sh *shard) clean(now int64) {
	for i := range sh.table {
		for e := &sh.table[i]; e.hash != 0 && e.full(now); { // what moves into the gap may have to go, too
			sh.remove(uint64(i))
		}
	}
}

// remove empties slot i and moves those behind it up that could not be found otherwise.
func (sh *shard) remove(i uint64) {
	mask := sh.mask()
	for j := (i + 1) & mask; sh.table[j].hash != 0; j = (j + 1) & mask {
		home := sh.table[j].hash & mask
		if (j-home)&mask >= (j-i)&mask { // it is looked for from at or before the gap
			sh.table[i] = sh.table[j]
			i = j
		}
	}
	sh.table[i] = slot{}
	sh.used--
}

// insert gives hash, which has none, a slot. It reports whether there was room. The shard is locked.
func (s *Store) insert(sh *shard, hash uint64, state limit.State, now int64) bool {
	e := slot{hash: hash}
	e.set(state)
	if old := sh.reusable(hash, now); old != nil {
		*old = e
		return true
	}
	reserved := s.reserve() || s.tidyIfWorthwhile(sh, now) && s.reserve()
	if !reserved {
		return false
	}
	if sh.crowded() {
		s.kept.Add(-int64(sh.tidy(now, 1)))
	}
	sh.add(e)
	return true
}

// room reports whether insert would succeed. The shard is locked.
func (s *Store) room(sh *shard, hash uint64, now int64) bool {
	return s.kept.Load() < s.max || sh.reusable(hash, now) != nil || s.tidyIfWorthwhile(sh, now) && s.kept.Load() < s.max
}

// reserve counts one subject more if that is not too many.
func (s *Store) reserve() bool {
	for {
		n := s.kept.Load()
		if n >= s.max {
			return false
		}
		if s.kept.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// tidyIfWorthwhile tidies sh unless it was done lately, however many new subjects ask for it: all shards together may take
// a small share of the time.
func (s *Store) tidyIfWorthwhile(sh *shard, now int64) bool {
	pause := int64(len(sh.table)) / slotsPerMicro * int64(len(s.shards))
	if since := now - sh.tidied; since >= 0 && since < pause {
		return false
	}
	s.kept.Add(-int64(sh.tidy(now, 0)))
	return true
}
