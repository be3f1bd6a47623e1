package resilient

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// viaFallback marks the grants of the fallback in [store.Grant.Via].
const viaFallback = 0x80

// maxShares bounds how many rules are kept.
const maxShares = 1024

// A fallback decides by shares of limits.
type fallback struct {
	store     store.RateStore
	local     bool
	instances func() int

	writing sync.Mutex
	shares  atomic.Pointer[map[shareOf]*limit.Rule] // replaced, never written to
}

// A shareOf says what a rule is the share of.
type shareOf struct {
	rule      *limit.Rule
	instances int
}

func newFallback(rs store.RateStore, instances func() int) *fallback {
	f := &fallback{store: rs, local: store.IsLocal(rs), instances: instances}
	f.shares.Store(new(map[shareOf]*limit.Rule))
	return f
}

// within bounds a call of a fallback on another machine.
func (f *fallback) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if f.local {
		return ctx, func() {}
	}
	return withTimeout(ctx, timeout)
}

func (f *fallback) take(ctx context.Context, r store.Request) (store.Grant, error) {
	share, err := f.share(r.Rule, r.Cost)
	if err != nil {
		return store.Grant{}, err
	}
	r.Rule = share
	g, err := f.store.Take(ctx, r)
	if err != nil {
		return store.Grant{}, err
	}
	if g.Rule == nil {
		g.Rule = share
	}
	g.Via |= viaFallback
	g.Degraded = true
	return g, nil
}

func (f *fallback) peek(ctx context.Context, r store.Request) (limit.Verdict, error) {
	share, err := f.share(r.Rule, r.Cost)
	if err != nil {
		return limit.Verdict{}, err
	}
	r.Rule = share
	return f.store.Peek(ctx, r)
}

// settle needs no share: the receipt has the rule that was charged by.
func (f *fallback) settle(ctx context.Context, r store.Receipt, actual int64) error {
	r.Via &^= viaFallback
	return f.store.Settle(ctx, r, actual)
}

// share returns the rule that stands in for r where a request costs so much.
//
// Its burst is at least the largest cost so far, and does not shrink for the next request: a bucket that is now larger, now
// smaller, forgives what it can not hold, and who alternates between dear and cheap requests would get more than the quota.
func (f *fallback) share(r *limit.Rule, cost int64) (*limit.Rule, error) {
	of := shareOf{rule: r, instances: f.instances()}
	if of.instances <= 1 {
		return r, nil
	}
	if cost > r.Burst() {
		cost = 1 // can never pass, share or no share
	}
	if share := (*f.shares.Load())[of]; share != nil && share.Burst() >= cost {
		return share, nil
	}
	return f.compile(of, cost)
}

// compile adds a share, or replaces it by one with a larger burst.
func (f *fallback) compile(of shareOf, burst int64) (*limit.Rule, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	known := *f.shares.Load()
	old := known[of]
	if old != nil && old.Burst() >= burst { // another call was faster
		return old, nil
	}
	share, err := of.rule.Limit().Share(of.instances, burst).Compile()
	if err != nil {
		return nil, fmt.Errorf("%w: no share of %s by %d: %w", store.ErrUnavailable, of.rule.Limit(), of.instances, err)
	}
	share = share.Beside(of.rule) // whose subjects may stand under other limits at other times
	next := make(map[shareOf]*limit.Rule, len(known)+1)
	if old != nil || len(known) < maxShares { // else start afresh: rules come and go over a long life
		maps.Copy(next, known)
	}
	next[of] = share
	f.shares.Store(&next)
	return share, nil
}
