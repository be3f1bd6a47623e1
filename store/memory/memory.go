// Package memory keeps the state of limits in the process: the store that serves where no other is given.
//
// It decides as every store does (see [store.RateStore]): exactly, for any number of goroutines. What it keeps ends with
// the process, and each process counts for itself. It has no goroutine and needs no closing.
//
// # Memory
//
// A subject takes 32 to 64 bytes as the store grows, however long its name: only a 64-bit hash of its key is kept, under a seed of the
// store's own that no client can learn. Two of a million subjects share a state with a probability of 3 in 10^8.
//
// A subject whose bucket is full again is like one never seen, and is forgotten: its place is taken by the next
// that needs one, and requests sweep the rest away in passing, a small part each few milliseconds. Tables that have
// become too large shrink. All that is needed is some request now and then, of whatever subject.
//
// At most [MaxKeys] subjects are kept. While all of them still owe something, new ones share one bucket per policy, route
// and limit: nobody loses what is known about them, and nobody is unlimited. [OnOverflow] tells. The key of such a bucket has
// the Kind "overflow" and no Subject, and can be peeked at and reset like any other.
package memory

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

var _ store.RateStore = (*Store)(nil)

// A Store is a [store.RateStore] in memory. Use [New]; the zero Store does not work. It is safe for concurrent use.
//
// Its decisions take well under a microsecond and ignore the context that they are given.
type Store struct {
	seed     maphash.Seed
	shards   []shard // a power of two of them
	shift    int     // leaves of a hash the number of its shard
	max      int64
	clock    clock
	sweeper  sweeper
	overflow overflow

	_    [64]byte // what every request reads must not share a cache line with what new subjects write
	kept atomic.Int64
}

// New returns an empty store. It panics if an option is invalid, with all that is wrong with any of them.
func New(opts ...Option) *Store {
	c := configure(opts)
	n := shardsFor(c.maxKeys)
	return &Store{
		seed:     maphash.MakeSeed(),
		shards:   make([]shard, n),
		shift:    64 - bits.TrailingZeros(uint(n)),
		max:      int64(c.maxKeys),
		clock:    newClock(c.now),
		overflow: overflow{report: c.onOverflow, states: make(map[overflowBucket]limit.State)},
	}
}

// Len returns how many subjects are kept. It counts some whose bucket is full again and who have not been swept away yet,
// and does not count those who share an overflow bucket.
func (s *Store) Len() int { return int(s.kept.Load()) }

// Take charges the cost if the limit allows it. It does not look at ctx.
func (s *Store) Take(_ context.Context, r store.Request) (store.Grant, error) {
	if err := r.Check(); err != nil {
		return store.Grant{}, err
	}
	if !isOverflow(r.Key) {
		g, now, ok := s.take(&r)
		if s.sweepIfDue(now) && !ok {
			g, _, ok = s.take(&r)
		}
		if ok {
			return g, nil
		}
	}
	return s.overflow.take(r, &s.clock), nil
}

// take decides for a subject of its own. ok is false if there is no room for one.
func (s *Store) take(r *store.Request) (g store.Grant, now int64, ok bool) {
	hash := s.hash(&r.Key)
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = s.clock.now() // under the lock, so that the decisions of a shard are in the order of their times
	slot := sh.find(hash)
	state, v := r.Rule.Take(slot.state(), now, r.Cost)
	switch {
	case slot != nil:
		slot.set(state)
	case v.OK && !s.insert(sh, hash, state, now):
		return g, now, false
	}
	return store.Grant{Verdict: v, At: state}, now, true
}

// Peek says what Take would say, and changes nothing. It does not look at ctx.
func (s *Store) Peek(_ context.Context, r store.Request) (limit.Verdict, error) {
	if err := r.Check(); err != nil {
		return limit.Verdict{}, err
	}
	if !isOverflow(r.Key) {
		v, now, ok := s.peek(&r)
		if !ok && s.sweepIfDue(now) {
			v, _, ok = s.peek(&r)
		}
		if ok {
			return v, nil
		}
	}
	return s.overflow.peek(r, &s.clock), nil
}

func (s *Store) peek(r *store.Request) (v limit.Verdict, now int64, ok bool) {
	hash := s.hash(&r.Key)
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = s.clock.now()
	slot := sh.find(hash)
	_, v = r.Rule.Take(slot.state(), now, r.Cost)
	return v, now, slot != nil || !v.OK || s.room(sh, hash, now)
}

// Reset forgets the key. It does not look at ctx. A subject without a place of its own has nothing to forget: the bucket that
// it shares stays as it is.
func (s *Store) Reset(_ context.Context, k store.Key) error {
	if isOverflow(k) {
		s.overflow.reset(k)
		return nil
	}
	hash := s.hash(&k)
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if slot := sh.find(hash); slot != nil {
		slot.set(limit.State{}) // its place stays taken, so that probing goes on past it, until it is needed or swept
	}
	return nil
}

// Settle corrects the charge of r to actual. It does not look at ctx. A receipt that no grant can have given gets
// [limit.ErrCost].
func (s *Store) Settle(_ context.Context, r store.Receipt, actual int64) error {
	if err := r.Check(actual); err != nil {
		return err
	}
	if r.Via == viaOverflow || isOverflow(r.Key) || !s.settle(&r, actual) {
		s.overflow.settle(r, actual, &s.clock)
	}
	return nil
}

// settle reports whether the subject of r has, or got, a place of its own.
func (s *Store) settle(r *store.Receipt, actual int64) bool {
	hash := s.hash(&r.Key)
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.clock.now()
	slot := sh.find(hash)
	if slot == nil && actual <= r.Cost {
		return true // a full bucket: there is nothing to give back
	}
	state := r.Rule.Settle(slot.state(), now, r.At, r.Cost, actual)
	if slot != nil {
		slot.set(state)
		return true
	}
	return s.insert(sh, hash, state, now)
}

// hash hashes each part under the store's seed and multiplies it with a number of its place, so that no two keys meet by
// construction. The parts do not wait for each other, as they would in one running hash.
func (s *Store) hash(k *store.Key) uint64 {
	h := s.part(k.Subject, 0x9e3779b97f4a7c15) ^ s.part(k.Kind, 0xbf58476d1ce4e5b9) ^
		s.part(k.Policy, 0x94d049bb133111eb) ^ s.part(k.Method, 0xd6e8feb86659fd93) ^
		s.part(k.Pattern, 0xa0761d6478bd642f) ^ s.part(k.Shape, 0xe7037ed1a0b428db)
	if h == 0 {
		return 1 // 0 marks an empty slot
	}
	return h
}

// part leaves out empty parts: half of a key's are.
func (s *Store) part(text string, place uint64) uint64 {
	if text == "" {
		return 0
	}
	hi, lo := bits.Mul64(maphash.String(s.seed, text)^place, place)
	return hi ^ lo
}

func (s *Store) shard(hash uint64) *shard { return &s.shards[hash>>s.shift] }

// Local reports true: no answer comes from another machine.
func (s *Store) Local() bool { return true }
