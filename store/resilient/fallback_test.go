package resilient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

// An out is a store whose primary is down, over a fallback whose clock stands still.
type out struct {
	*Store
	t        *testing.T
	primary  *scripted
	fallback *memory.Store
	clock    *storetest.Clock
}

func newOut(t *testing.T, instances func() int) *out {
	o := &out{t: t, primary: newScripted(), clock: storetest.NewClock()}
	o.fallback = memory.New(memory.Clock(o.clock.Now))
	o.Store = New(o.primary, quiet(), FallbackShare(o.fallback, instances))
	o.primary.set(errDown)
	return o
}

func of(n int) func() int { return func() int { return n } }

// passes returns how many of n requests pass now.
func (o *out) passes(n int, r store.Request) int {
	o.t.Helper()
	passed := 0
	for range n {
		v, err := o.Peek(context.Background(), r)
		if err != nil {
			o.t.Fatalf("Peek: %v", err)
		}
		g := takeFrom(o.t, o.Store, r, true)
		if g.Verdict != v {
			o.t.Fatalf("Peek said %+v, Take %+v", v, g.Verdict)
		}
		if g.OK {
			passed++
		}
	}
	return passed
}

func TestShareOfTheLimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		limit     limit.Limit
		instances int
		burst     int // what passes at once
		later     int // what passes a minute later
	}{
		{limit.PerMinute(100), 1, 100, 100},
		{limit.PerMinute(100), 2, 50, 50},
		{limit.PerMinute(100), 3, 33, 33},
		{limit.PerMinute(100).Burst(10), 4, 2, 2},
		{limit.PerMinute(10).Burst(100), 4, 25, 2},
		{limit.PerMinute(3), 100, 1, 1},
		{limit.PerMinute(100), 0, 100, 100},
		{limit.PerMinute(100), -1, 100, 100},
	} {
		o := newOut(t, of(tc.instances))
		r := request(t, "a", tc.limit)
		r.Cost = r.Rule.Burst() + 1
		if g := takeFrom(t, o.Store, r, true); g.OK || g.Wait != limit.Never {
			t.Errorf("%s over %d: a cost that is never allowed: %+v", tc.limit, tc.instances, g.Verdict)
		}
		r.Cost = 1
		if got := o.passes(tc.burst+20, r); got != tc.burst {
			t.Errorf("%s over %d: %d passed at once, want %d", tc.limit, tc.instances, got, tc.burst)
		}
		o.clock.Advance(time.Minute)
		if got := o.passes(tc.burst+20, r); got != tc.later {
			t.Errorf("%s over %d: %d passed a minute later, want %d", tc.limit, tc.instances, got, tc.later)
		}
	}
}

// TestCostAboveTheShare passes when the bucket is full, and is paid back at the rate of the share.
func TestCostAboveTheShare(t *testing.T) {
	t.Parallel()
	o := newOut(t, of(4))
	r := request(t, "a", limit.PerMinute(100)) // a share is 25 a minute
	r.Cost = 50
	if got := o.passes(2, r); got != 1 {
		t.Fatalf("%d of cost 50 passed, want 1", got)
	}
	if g := takeFrom(t, o.Store, r, true); g.Wait != 2*time.Minute {
		t.Errorf("the next has to wait %s, want 2m", g.Wait)
	}
	r.Cost = 100
	if g := takeFrom(t, o.Store, r, true); g.OK || g.Wait != 2*time.Minute {
		t.Errorf("cost 100: %+v, want a wait of 2m", g.Verdict)
	}
}

// TestDearAndCheapRequests: who alternates gets no more than the quota of the share.
func TestDearAndCheapRequests(t *testing.T) {
	t.Parallel()
	o := newOut(t, of(4))
	dear, cheap := request(t, "a", limit.PerMinute(100)), request(t, "a", limit.PerMinute(100))
	cheap.Rule, dear.Cost = dear.Rule, 50
	var passed int64
	const minutes = 60
	for range minutes * 60 {
		for _, r := range []store.Request{cheap, dear} {
			if g := takeFrom(t, o.Store, r, true); g.OK {
				passed += r.Cost
			}
		}
		o.clock.Advance(time.Second)
	}
	if most := int64(50 + 25*minutes); passed > most || passed < most-50 {
		t.Errorf("%d passed in an hour, want %d", passed, most)
	}
}

func TestCostOutOfRange(t *testing.T) {
	t.Parallel()
	o := newOut(t, of(2))
	r := request(t, "a", limit.PerMinute(100))
	for _, cost := range []int64{0, -1} {
		r.Cost = cost
		_, err := o.Take(context.Background(), r)
		_, errPeek := o.Peek(context.Background(), r)
		mustBe(t, err, limit.ErrCost)
		mustBe(t, errPeek, limit.ErrCost)
	}
	r = store.Request{Key: r.Key, Cost: 1}
	_, err := o.Take(context.Background(), r)
	_, errPeek := o.Peek(context.Background(), r)
	for _, err := range []error{err, errPeek, o.Settle(context.Background(), store.Receipt{Request: r}, 1)} {
		mustBe(t, err, store.ErrMisconfigured)
	}
	o.is(Closed, Serving)
	if o.primary.count() != 0 {
		t.Error("mistakes of the caller reached the primary")
	}
}

func (o *out) is(circuit Circuit, condition Condition) {
	o.t.Helper()
	(&bench{Store: o.Store, t: o.t}).is(circuit, condition)
}

// TestNoShare: a limit so slow that its share can not be counted is not decided.
func TestNoShare(t *testing.T) {
	t.Parallel()
	o := newOut(t, of(10))
	r := request(t, "a", limit.Per(10, 366*24*time.Hour).Burst(100))
	r.Cost = 100 // at 1 a year
	for range 2 {
		_, err := o.Take(context.Background(), r)
		_, errPeek := o.Peek(context.Background(), r)
		mustBe(t, err, errDown)
		mustBe(t, errPeek, errDown)
	}
	r.Cost = 1
	takeFrom(t, o.Store, r, true)
}

// TestSettleGoesWhereTheChargeWasMade, whoever decides now.
func TestSettleGoesWhereTheChargeWasMade(t *testing.T) {
	t.Parallel()
	o := newOut(t, of(2))
	ctx := context.Background()
	r := request(t, "a", limit.PerDay(100))
	r.Cost = 10
	o.primary.set(nil)
	ofPrimary := takeFrom(t, o.Store, r, false).Receipt(r)
	o.primary.set(errDown)
	ofFallback := takeFrom(t, o.Store, r, true).Receipt(r)
	share := store.Request{Key: r.Key, Rule: compile(t, limit.PerDay(50)), Cost: 1}

	if err := o.Settle(ctx, ofFallback, 15); err != nil {
		t.Errorf("a receipt of the fallback: %v", err)
	}
	mustBe(t, o.Settle(ctx, ofPrimary, 0), store.ErrUnavailable)
	mustBe(t, o.Settle(ctx, ofPrimary, -1), limit.ErrCost)
	if p, f := spent(t, o.primary.inner, r), spent(t, o.fallback, share); p != 10 || f != 15 {
		t.Errorf("while the primary is down: %d and %d spent, want 10 and 15", p, f)
	}
	o.primary.set(nil)
	if err := o.Settle(ctx, ofFallback, 3); err != nil { // as of 10: 7 back
		t.Errorf("a receipt of the fallback: %v", err)
	}
	if err := o.Settle(ctx, ofPrimary, 4); err != nil {
		t.Errorf("a receipt of the primary: %v", err)
	}
	if p, f := spent(t, o.primary.inner, r), spent(t, o.fallback, share); p != 4 || f != 8 {
		t.Errorf("after its return: %d and %d spent, want 4 and 8", p, f)
	}
	mustBe(t, o.Settle(ctx, ofFallback, -1), limit.ErrCost)
	mustBe(t, New(o.primary).Settle(ctx, ofFallback, 1), store.ErrMisconfigured)
}

// TestNumberOfInstancesChanges between a charge and its settlement, which corrects that charge all the same.
func TestNumberOfInstancesChanges(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	n.Store(2)
	o := newOut(t, func() int { return int(n.Load()) })
	r := request(t, "a", limit.PerMinute(100))
	for range 40 {
		takeFrom(t, o.Store, r, true)
	}
	r.Cost = 5
	receipt := takeFrom(t, o.Store, r, true).Receipt(r) // 45 of 50: full in 54s
	r.Cost = 1
	n.Store(10)
	if v, err := o.Peek(context.Background(), r); err != nil || !v.OK || v.Remaining != 0 {
		t.Errorf("a share of 10 a minute, 54s owed: %+v, %v, want 0 remaining after one more", v, err)
	}
	if err := o.Settle(context.Background(), receipt, 0); err != nil {
		t.Fatal(err)
	}
	n.Store(2)
	if v, err := o.Peek(context.Background(), r); err != nil || v.Remaining != 9 {
		t.Errorf("5 of 45 given back: %+v, %v, want 9 of 50 remaining after one more", v, err)
	}
}

func TestSharesAreBounded(t *testing.T) {
	t.Parallel()
	o := newOut(t, of(2))
	first := request(t, "a", limit.PerDay(10))
	if got := o.passes(3, first); got != 3 {
		t.Fatalf("%d passed, want 3", got)
	}
	r := first
	for range 3 * maxShares {
		r.Rule = compile(t, limit.PerDay(10))
		r.Key.Subject = "b"
		takeFrom(t, o.Store, r, true)
		if got := len(*o.Store.fallback.shares.Load()); got > maxShares {
			t.Fatalf("%d shares are kept", got)
		}
	}
	if got := o.passes(3, first); got != 2 {
		t.Errorf("%d passed, want 2: the share was forgotten, the subject not", got)
	}
	r.Cost = 9
	before := len(*o.Store.fallback.shares.Load())
	takeFrom(t, o.Store, r, true)
	if got := len(*o.Store.fallback.shares.Load()); got != before {
		t.Errorf("a larger burst: %d shares are kept, want %d as before", got, before)
	}
}

// TestSharesDoNotShrink, not even if two calls are about to compile at the same time.
func TestSharesDoNotShrink(t *testing.T) {
	t.Parallel()
	f := newFallback(memory.New(), of(2))
	r := compile(t, limit.PerDay(100))
	for _, cost := range []int64{80, 1, 60} {
		share, err := f.compile(shareOf{rule: r, instances: 2}, cost)
		if err != nil || share.Burst() != 80 {
			t.Errorf("cost %d after 80: a burst of %d, %v, want 80", cost, share.Burst(), err)
		}
	}
}

func TestSharesAreCompiledConcurrently(t *testing.T) {
	t.Parallel()
	o := newOut(t, of(2))
	requests := make([]store.Request, 64)
	for i := range requests {
		requests[i] = request(t, "a", limit.PerDay(100))
		requests[i].Rule = requests[i/8*8].Rule
		requests[i].Key.Subject = string(rune('a' + i/8))
		requests[i].Cost = int64(i%8 + 1)
	}
	var charged [8]atomic.Int64
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() {
			for range 20 {
				if takeFrom(t, o.Store, r, true).OK {
					charged[i/8].Add(r.Cost)
				}
			}
		})
	}
	all.Wait()
	for i := range charged {
		last := requests[i*8]
		last.Cost = 1 // which fills what the dearer ones leave
		if got := charged[i].Load() + int64(o.passes(50, last)); got != 50 {
			t.Errorf("subject %d: %d charged, want 50", i, got)
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	o := newOut(t, of(2))
	ctx := context.Background()
	r := request(t, "a", limit.PerDay(10))
	o.primary.set(nil)
	takeFrom(t, o.Store, r, false)
	o.primary.set(errDown)
	takeFrom(t, o.Store, r, true)
	share := store.Request{Key: r.Key, Rule: compile(t, limit.PerDay(5)), Cost: 1}

	mustBe(t, o.Reset(ctx, r.Key), store.ErrUnavailable)
	if p, f := spent(t, o.primary.inner, r), spent(t, o.fallback, share); p != 1 || f != 0 {
		t.Errorf("while the primary is down: %d and %d spent, want 1 and 0", p, f)
	}
	takeFrom(t, o.Store, r, true)
	o.primary.set(nil)
	if err := o.Reset(ctx, r.Key); err != nil {
		t.Errorf("Reset: %v", err)
	}
	if p, f := spent(t, o.primary.inner, r), spent(t, o.fallback, share); p != 0 || f != 0 {
		t.Errorf("after its return: %d and %d spent, want 0 and 0", p, f)
	}
}

// TestHandBack: the primary decides as it left off, and knows nothing of what was charged meanwhile.
func TestHandBack(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.r.Cost = b.r.Rule.Burst() / 2
		b.decide(1, false, 1, 0)
		b.trip()
		before := spent(t, b.primary.inner, b.r)
		b.primary.set(nil)
		b.decide(10, true, 0, 0)
		time.Sleep(openFor + moment)
		calls := b.primary.count()
		if got := spent(t, b.Store, b.r); got > before || got < before-20 || b.primary.count() != calls+1 {
			t.Errorf("%d spent before the outage, %d after it, by the primary", before, got)
		}
		b.is(Closed, Serving)
	})
}

// TestBothDown: the error is what both of them are.
func TestBothDown(t *testing.T) {
	t.Parallel()
	primary, second := newScripted(), newScripted()
	s := New(primary, quiet(), Fallback(second, 2))
	r := request(t, "a", limit.PerDay(10))
	errSecond := errors.Join(store.ErrMisconfigured, errors.New("second"))
	ctx := context.Background()
	g := take(t, s, r)
	primary.set(errDown)
	d := take(t, s, r)
	second.set(errSecond)
	_, err := s.Take(ctx, r)
	_, errPeek := s.Peek(ctx, r)
	for _, err := range []error{err, errPeek, s.Reset(ctx, r.Key)} {
		mustBe(t, err, errDown)
		mustBe(t, err, errSecond)
	}
	mustBe(t, s.Settle(ctx, g.Receipt(r), 2), errDown)
	mustBe(t, s.Settle(ctx, d.Receipt(r), 2), errSecond)
	primary.set(nil)
	mustBe(t, s.Reset(ctx, r.Key), errSecond)
	if got := s.State().Degraded; got != 1 {
		t.Errorf("%d decisions of the fallback, want 1", got)
	}
}

// TestSlowFallback: one on another machine has the same deadline.
func TestSlowFallback(t *testing.T) {
	second := newScripted()
	inBubble(t, func(b *bench) {
		b.primary.set(errDown)
		second.script(nil, time.Hour, true)
		start := time.Now()
		_, err := b.Take(context.Background(), b.r)
		mustBe(t, err, errDown)
		mustBe(t, err, context.DeadlineExceeded)
		if got := time.Since(start); got != DefaultTimeout {
			t.Errorf("it took %s", got)
		}
	}, Fallback(second, 2))
}

// TestSharesHonourDebtsAcrossPlans alternates between two limits under which one subject stands, while the primary is down: one
// request under the small one must not pay off what the large one owes.
func TestSharesHonourDebtsAcrossPlans(t *testing.T) {
	t.Parallel()
	large, err := limit.PerHour(20).Compile()
	if err != nil {
		t.Fatal(err)
	}
	small, err := limit.PerSecond(2).Compile()
	if err != nil {
		t.Fatal(err)
	}
	large, small = large.Beside(large, small), small.Beside(large, small)
	clock := storetest.NewClock()
	f := newFallback(memory.New(memory.Clock(clock.Now)), func() int { return 2 })
	passed := 0
	take := func(r *limit.Rule) bool {
		g, err := f.take(t.Context(), store.Request{Key: store.Key{Kind: "user", Subject: "ann"}, Rule: r, Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		return g.OK
	}
	for range 4 {
		for range 20 {
			if take(large) {
				passed++
			}
		}
		take(small)
		clock.Advance(1100 * time.Millisecond)
		take(small)
	}
	if passed != 10 {
		t.Errorf("%d passed under the large limit, want its share of 10", passed)
	}
}
