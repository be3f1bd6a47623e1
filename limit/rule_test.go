package limit_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trafficguard-go/trafficguard/limit"
)

// epoch is some instant in 2027.
const epoch = 1_805_000_000_123_457

// A bucket is one subject's state and its time.
type bucket struct {
	t     *testing.T
	rule  *limit.Rule
	state limit.State
	now   int64
}

func newBucket(t *testing.T, l limit.Limit) *bucket {
	t.Helper()
	return &bucket{t: t, rule: compiled(t, l), now: epoch}
}

func (b *bucket) pass(d time.Duration) { b.now += d.Microseconds() }

func (b *bucket) take(cost int64) limit.Verdict {
	var v limit.Verdict
	b.state, v = b.rule.Take(b.state, b.now, cost)
	return v
}

func (b *bucket) admit(cost int64) limit.State {
	b.t.Helper()
	if v := b.take(cost); !v.OK {
		b.t.Fatalf("%s, cost %d: %+v, must pass", b.rule.Limit(), cost, v)
	}
	return b.state
}

func (b *bucket) refuse(cost int64, wait time.Duration) {
	b.t.Helper()
	before := b.state
	if v := b.take(cost); v.OK || v.Wait != wait {
		b.t.Fatalf("%s, cost %d: %+v, must be refused with a wait of %s", b.rule.Limit(), cost, v, wait)
	}
	if b.state != before {
		b.t.Fatalf("%s: a refusal changed %+v to %+v", b.rule.Limit(), before, b.state)
	}
}

// owes checks the debt, to the microsecond.
func (b *bucket) owes(want time.Duration) {
	b.t.Helper()
	if got := b.rule.Verdict(b.rule.Debt(b.state, b.now), 1, true).Full; got != want {
		b.t.Fatalf("%s: %s is owed, want %s", b.rule.Limit(), got, want)
	}
}

func TestOneInTenSeconds(t *testing.T) {
	t.Parallel()
	b := newBucket(t, limit.Every(10*time.Second))
	b.admit(1)
	b.pass(4 * time.Second)
	for range 3 {
		b.refuse(1, 6*time.Second)
	}
	b.pass(6*time.Second - time.Microsecond)
	b.refuse(1, time.Microsecond)
	b.pass(time.Microsecond)
	b.admit(1)
	b.refuse(1, 10*time.Second)
}

func TestSixInAMinute(t *testing.T) {
	t.Parallel()
	b := newBucket(t, limit.Per(6, time.Minute))
	for i := range int64(6) {
		want := limit.Verdict{OK: true, Remaining: 5 - i, Full: time.Duration(i+1) * 10 * time.Second}
		if got := b.take(1); got != want {
			t.Fatalf("request %d: %+v, want %+v", i+1, got, want)
		}
	}
	b.refuse(1, 10*time.Second)
	b.refuse(6, time.Minute)
	b.pass(8500 * time.Millisecond)
	b.refuse(1, 1500*time.Millisecond)
	b.pass(1500 * time.Millisecond)
	b.admit(1)
	b.pass(time.Minute)
	b.admit(6)
}

func TestOneAMonth(t *testing.T) {
	t.Parallel()
	b := newBucket(t, limit.Every(720*time.Hour))
	b.admit(1)
	b.refuse(1, 720*time.Hour)
	b.pass(720*time.Hour - time.Second)
	b.refuse(1, time.Second)
	b.pass(time.Second)
	b.admit(1)
}

func TestPeriodsOfNoWholeSecond(t *testing.T) {
	t.Parallel()
	b := newBucket(t, limit.Every(333_333*time.Microsecond))
	for range 1000 {
		b.admit(1)
		b.refuse(1, 333_333*time.Microsecond)
		b.pass(333_333 * time.Microsecond)
	}
	b = newBucket(t, limit.Per(3, 1500*time.Millisecond))
	b.admit(3)
	for range 1000 {
		b.refuse(1, 500*time.Millisecond)
		b.pass(500 * time.Millisecond)
		b.admit(1)
	}
}

// TestThirdsAddUp checks that what is rounded in a wait is not lost: three waits of a third are a whole.
func TestThirdsAddUp(t *testing.T) {
	t.Parallel()
	b := newBucket(t, limit.Per(3, 10*time.Second))
	b.admit(3)
	for range 1000 {
		for _, wait := range []time.Duration{3_333_334, 3_333_333, 3_333_333} {
			b.refuse(1, wait*time.Microsecond)
			b.pass(wait * time.Microsecond)
			b.admit(1)
		}
	}
	if got := b.now - epoch; got != 10_000*1_000_000 {
		t.Errorf("3000 requests at 3 per 10s took %dµs, want 10,000s", got)
	}
}

func TestCostAboveTheBurst(t *testing.T) {
	t.Parallel()
	for _, cost := range []int64{11, 1 << 31, 1 << 53, math.MaxInt64} {
		b := newBucket(t, limit.Per(10, time.Minute))
		b.refuse(cost, limit.Never)
		b.admit(4)
		b.refuse(cost, limit.Never)
		if v := b.take(cost); v.Remaining != 6 || v.Full != 24*time.Second {
			t.Errorf("cost %d, 4 of 10 spent: %+v, want 6 remaining and full in 24s", cost, v)
		}
		b.admit(6)
	}
}

func TestClockThatGoesBack(t *testing.T) {
	t.Parallel()
	b := newBucket(t, limit.Per(6, time.Minute))
	b.admit(6)
	b.pass(-24 * time.Hour)
	if v := b.take(1); v.OK || v.Wait != 10*time.Second {
		t.Fatalf("a day back: %+v, want a wait of 10s", v)
	}
	b.pass(10 * time.Second)
	b.admit(1)
	b.refuse(1, 10*time.Second)

	b = newBucket(t, limit.Per(6, time.Minute))
	b.admit(2)
	b.pass(-15 * time.Second)
	b.owes(35 * time.Second) // those 15s are its price
}

func TestRuleOfALargerLimitBefore(t *testing.T) {
	t.Parallel()
	b := newBucket(t, limit.PerHour(1000))
	b.admit(1000)
	b.rule = compiled(t, limit.PerMinute(10))
	if v := b.take(1); v.OK || v.Wait != 6*time.Second || v.Full != time.Minute {
		t.Fatalf("under 10 a minute: %+v, want a wait of 6s and full in a minute", v)
	}
	b.pass(6 * time.Second)
	b.admit(1)
}

// TestFractionsOfAnotherRule checks that a fraction which only another rule can have is no debt of more than a microsecond.
func TestFractionsOfAnotherRule(t *testing.T) {
	t.Parallel()
	seven := compiled(t, limit.PerSecond(999_983))
	s := seven.StateAt(epoch, seven.Denominator()*5-1) // 4.99...µs
	for _, l := range []limit.Limit{limit.PerSecond(1), limit.PerSecond(7), limit.PerSecond(1_000_000_000)} {
		r := compiled(t, l)
		if owed := r.Debt(s, epoch); owed < 4*r.Denominator() || owed > 5*r.Denominator() {
			t.Errorf("%s: 4.99µs became %d units of 1/%dµs", l, owed, r.Denominator())
		}
	}
}

func TestStateAtIsTheInverseOfDebt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, r := anyLimit(t)
		debt := rapid.OneOf(rapid.Int64Range(0, r.Capacity()), rapid.Int64Range(0, r.MaxDebt()),
			rapid.SampledFrom([]int64{0, 1, r.Capacity() - 1, r.Capacity(), min(r.Capacity()+1, r.MaxDebt()), r.MaxDebt()})).Draw(t, "debt")
		s := r.StateAt(epoch, debt)
		if got := r.Debt(s, epoch); got != debt {
			t.Fatalf("%s: a debt of %d is %+v, and that is %d", r.Limit(), debt, s, got)
		}
		if s.Over != (debt > r.Capacity()) || s.Frac < 0 || s.Frac > math.MaxInt32-1 {
			t.Fatalf("%s: a debt of %d of %d is %+v", r.Limit(), debt, r.Capacity(), s)
		}
	})
}

// TestVerdictsFitADuration checks the largest numbers that there are.
func TestVerdictsFitADuration(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, r := anyLimit(t)
		v := r.Verdict(r.MaxDebt(), r.Burst(), false)
		if v.Full <= 0 || v.Wait <= 0 || v.Wait > v.Full || v.Remaining != 0 {
			t.Fatalf("%s: of the largest debt %+v", r.Limit(), v)
		}
		if v := r.Verdict(0, 1, true); v != (limit.Verdict{OK: true, Remaining: r.Burst()}) {
			t.Fatalf("%s: of no debt %+v", r.Limit(), v)
		}
	})
}
