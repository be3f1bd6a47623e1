package limit_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trafficguard-go/trafficguard/limit"
)

func (b *bucket) settle(at limit.State, cost, actual int64) {
	b.state = b.rule.Settle(b.state, b.now, at, cost, actual)
}

func TestSettle(t *testing.T) {
	t.Parallel()
	const token = 6 * time.Second // of 10 a minute
	for _, tc := range []struct {
		name string
		run  func(b *bucket)
		owes time.Duration
	}{
		{"down", func(b *bucket) { b.settle(b.admit(8), 8, 3) }, 3 * token},
		{"to nothing", func(b *bucket) { b.settle(b.admit(8), 8, 0) }, 0},
		{"unchanged", func(b *bucket) { b.settle(b.admit(8), 8, 8) }, 8 * token},
		{"up", func(b *bucket) { b.settle(b.admit(2), 2, 7) }, 7 * token},
		{"past the burst", func(b *bucket) { b.settle(b.admit(10), 10, 25) }, 25 * token},
		{"down while others charge", func(b *bucket) {
			at := b.admit(3)
			b.admit(6)
			b.settle(at, 3, 1)
		}, 7 * token},
		{"after a while", func(b *bucket) {
			at := b.admit(10)
			b.pass(7 * token)
			b.settle(at, 10, 2) // 3 of the 10 are left to give back
		}, 0},
		{"after a while, others charged", func(b *bucket) {
			at := b.admit(10)
			b.pass(7 * token)
			b.admit(5)
			b.settle(at, 10, 0)
		}, 5 * token},
		{"when full again", func(b *bucket) {
			at := b.admit(10)
			b.pass(10 * token)
			b.admit(10)
			b.settle(at, 10, 0)
		}, 10 * token},
		{"up when full again", func(b *bucket) {
			at := b.admit(1)
			b.pass(time.Hour)
			b.settle(at, 1, 4)
		}, 3 * token},
		{"down out of debt", func(b *bucket) {
			first, second := b.admit(5), b.admit(5)
			b.settle(first, 5, 20)
			b.settle(second, 5, 0)
		}, 20 * token},
		{"two grants, the later first", func(b *bucket) {
			first, second := b.admit(5), b.admit(5)
			b.pass(8 * token)
			b.settle(second, 5, 0)
			b.settle(first, 5, 0)
		}, 0},
		{"forgotten meanwhile, down", func(b *bucket) {
			at := b.admit(5)
			b.state = limit.State{}
			b.settle(at, 5, 0)
		}, 0},
		{"forgotten meanwhile, up", func(b *bucket) {
			at := b.admit(5)
			b.state = limit.State{}
			b.settle(at, 5, 7)
		}, 2 * token},
		{"a clock that went back", func(b *bucket) {
			at := b.admit(5)
			b.pass(-2 * token)
			b.settle(at, 5, 0)
		}, 2 * token},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t, limit.PerMinute(10))
			tc.run(b)
			b.owes(tc.owes)
		})
	}
}

func TestDebtIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBucket(t, limit.PerMinute(10))
	b.settle(b.admit(1), 1, 25)
	b.refuse(1, 96*time.Second)
	b.refuse(10, 150*time.Second)
	b.refuse(11, limit.Never)
	b.pass(96*time.Second - time.Microsecond)
	b.refuse(1, time.Microsecond)
	b.pass(time.Microsecond)
	b.admit(1)
	b.refuse(1, 6*time.Second)
	if b.state.Over {
		t.Error("the debt is paid down to the burst, and still marked as over it")
	}
}

// TestSettleToTheLargestNumber checks that no sum overflows, and that the debt stops at a century at most.
func TestSettleToTheLargestNumber(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, r := anyLimit(t)
		s, v := r.Take(limit.State{}, epoch, 1)
		if !v.OK {
			t.Fatalf("%s: the first request is refused: %+v", r.Limit(), v)
		}
		at := s
		for range 5 {
			s = r.Settle(s, epoch, at, 1, math.MaxInt64)
			if got := r.Debt(s, epoch); got != r.MaxDebt() {
				t.Fatalf("%s: %d is owed, want the largest debt %d", r.Limit(), got, r.MaxDebt())
			}
		}
		next, v := r.Take(s, epoch, 1)
		if v.OK || v.Wait <= 0 || v.Full > 101*365*24*time.Hour || next != s {
			t.Fatalf("%s: %+v and the state %+v after %+v", r.Limit(), v, next, s)
		}
		if _, v := r.Take(s, epoch+v.Wait.Microseconds(), 1); !v.OK {
			t.Fatalf("%s: refused after the wait: %+v", r.Limit(), v)
		}
	})
}

// TestSettleGivesNothingExtra compares a bucket in which one charge is settled down later with one that was charged the
// actual cost at once, while the same others are charged in both. Settling must never leave less debt: what time has given
// back is not given back again.
func TestSettleGivesNothingExtra(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := mustCompile(t, limit.PerMinute(rapid.SampledFrom([]int{1, 7, 10, 60}).Draw(t, "quota")).Burst(rapid.IntRange(1, 30).Draw(t, "burst")))
		cost := rapid.Int64Range(1, r.Burst()).Draw(t, "cost")
		actual := rapid.Int64Range(0, cost).Draw(t, "actual")
		now := int64(epoch)

		first := rapid.Int64Range(0, r.Burst()-cost).Draw(t, "before")
		charged, ideal := r.StateAt(now, units(t, r, first)), r.StateAt(now, units(t, r, first+actual))
		charged, v := r.Take(charged, now, cost)
		if !v.OK {
			t.Fatalf("cost %d after %d of %d: %+v", cost, first, r.Burst(), v)
		}
		at := charged
		for range rapid.IntRange(0, 10).Draw(t, "others") {
			now += rapid.Int64Range(0, r.Window().Microseconds()/3).Draw(t, "pause")
			other := rapid.Int64Range(1, r.Burst()).Draw(t, "other")
			next, v := r.Take(charged, now, other)
			if charged = next; v.OK {
				ideal = r.StateAt(now, r.Debt(ideal, now)+units(t, r, other))
			}
		}
		before := r.Debt(charged, now)
		charged = r.Settle(charged, now, at, cost, actual)
		got, want := r.Debt(charged, now), r.Debt(ideal, now)
		if got < want {
			t.Fatalf("%s: settled from %d to %d: %d units are owed, and %d if it had cost that at once", r.Limit(), cost, actual, got, want)
		}
		if got > before || before-got > units(t, r, cost-actual) {
			t.Fatalf("%s: settled from %d to %d: the debt went from %d to %d", r.Limit(), cost, actual, before, got)
		}
	})
}

func units(t *rapid.T, r *limit.Rule, tokens int64) int64 {
	n, ok := r.Units(tokens)
	if !ok {
		t.Fatalf("%d tokens are no cost of %s", tokens, r.Limit())
	}
	return n
}

func mustCompile(t *rapid.T, l limit.Limit) *limit.Rule {
	r, err := l.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRulesBesideOthersHonourTheirDebts alternates between two limits under which one subject stands.
func TestRulesBesideOthersHonourTheirDebts(t *testing.T) {
	t.Parallel()
	const now = 1_900_000_000_000_000
	large, small := compiled(t, limit.PerHour(1000)), compiled(t, limit.PerMinute(7))
	beside := small.Beside(large, small)
	if beside.Bound() < large.Capacity()/large.Denominator()*small.Denominator() || small.Bound() != small.Capacity() {
		t.Fatalf("the bound is %d, of the rule alone %d", beside.Bound(), small.Bound())
	}
	state, v := large.Take(limit.State{}, now, 1000)
	if !v.OK {
		t.Fatal("the burst was refused")
	}
	kept, v := beside.Take(state, now, 1)
	if v.OK || kept != state || v.Remaining != 0 || v.Wait < 59*time.Minute {
		t.Errorf("under the small limit: %+v and state %+v, want a refusal that changes nothing and a wait of an hour less a minute", v, kept)
	}
	if _, v := beside.Take(state, now+v.Wait.Microseconds(), 1); !v.OK {
		t.Errorf("after the wait: %+v", v)
	}
	if kept, _ = small.Take(state, now, 1); kept == state {
		t.Error("the rule alone keeps a debt that it cannot have caused")
	}
	// A clock that went back far is mended under the bound of both.
	kept, _ = beside.Take(state, now-int64(24*time.Hour/time.Microsecond), 1)
	if kept == state {
		t.Error("a clock that went back a day locks out for a day")
	}
}
