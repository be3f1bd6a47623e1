package memory

import (
	"sync"
	"sync/atomic"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// overflowKind is the kind of the keys of overflow buckets, and viaOverflow marks what was charged to one.
const (
	overflowKind = "overflow"
	viaOverflow  = 1
)

// reportPause is the least time between two reports, in microseconds.
const reportPause = 60_000_000

// An overflowBucket is what new subjects share while the store is full. The limit is part of it, or else subjects of a small
// one would be refused for what those of a large one spend.
type overflowBucket struct {
	key   store.Key
	limit limit.Limit
}

// overflow holds the overflow buckets. Their keys come from the program, so there are few.
type overflow struct {
	report func(store.Key)
	next   atomic.Int64 // when to report next

	mu     sync.Mutex
	states map[overflowBucket]limit.State
}

func isOverflow(k store.Key) bool { return k.Kind == overflowKind && k.Subject == "" }

// shared returns the key of the overflow bucket for k.
func shared(k store.Key) store.Key {
	k.Kind, k.Subject = overflowKind, ""
	return k
}

func bucketOf(r store.Request) overflowBucket {
	return overflowBucket{key: shared(r.Key), limit: r.Rule.Limit()}
}

// take decides for a subject that has no place of its own.
func (o *overflow) take(r store.Request, c *clock) store.Grant {
	b := bucketOf(r)
	o.mu.Lock()
	now := c.now()
	state, v := r.Rule.Take(o.states[b], now, r.Cost)
	o.put(b, state, now)
	o.mu.Unlock()
	o.tell(b.key, now)
	return store.Grant{Verdict: v, At: state, Via: viaOverflow}
}

func (o *overflow) peek(r store.Request, c *clock) limit.Verdict {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, v := r.Rule.Take(o.states[bucketOf(r)], c.now(), r.Cost)
	return v
}

func (o *overflow) settle(r store.Receipt, actual int64, c *clock) {
	b := bucketOf(r.Request)
	o.mu.Lock()
	defer o.mu.Unlock()
	now := c.now()
	o.put(b, r.Rule.Settle(o.states[b], now, r.At, r.Cost, actual), now)
}

// reset forgets the buckets of k under all limits.
func (o *overflow) reset(k store.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for b := range o.states {
		if b.key == k {
			delete(o.states, b)
		}
	}
}

// put stores state, and before it makes the map larger forgets the buckets that are full again. It is locked.
func (o *overflow) put(b overflowBucket, state limit.State, now int64) {
	if _, ok := o.states[b]; !ok {
		for other, s := range o.states {
			if s.At < now {
				delete(o.states, other)
			}
		}
	}
	o.states[b] = state
}

// tell reports that subjects of k share a bucket, unless something was reported within the last minute.
func (o *overflow) tell(k store.Key, now int64) {
	next := o.next.Load()
	if now < next && next-now <= reportPause {
		return
	}
	if o.next.CompareAndSwap(next, now+reportPause) {
		k.Kind = ""
		o.report(k)
	}
}
