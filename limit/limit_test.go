package limit_test

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trafficguard-go/trafficguard/limit"
)

func TestErrNamesEveryFault(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tc := range []struct {
		name  string
		limit limit.Limit
		want  []string // nil: no fault
	}{
		{"zero value", limit.Limit{}, []string{"limit is missing", "limit.PerMinute"}},
		{"zero value with a burst", limit.Limit{}.Burst(5), []string{"quota 0:", "period 0s:"}},
		{"zero quota", limit.PerSecond(0), []string{"quota 0: must be 1 to 1000000000"}},
		{"negative quota", limit.PerMinute(-1), []string{"quota -1:"}},
		{"least quota", limit.PerHour(math.MinInt), []string{"quota -9223372036854775808:"}},
		{"huge quota", limit.PerDay(1_000_000_001), []string{"quota 1000000001:"}},
		{"largest number", limit.PerDay(math.MaxInt), []string{"quota 9223372036854775807:"}},
		{"zero period", limit.Every(0), []string{"period 0s: must be more than zero"}},
		{"negative period", limit.Per(5, -time.Second), []string{"period -1s:"}},
		{"least period", limit.Per(5, math.MinInt64), []string{"period -2562047h47m16.854775808s:"}},
		{"period too long", limit.Every(366*day + 1), []string{"period 8784h0m0.000000001s: must be at most 8784h0m0s"}},
		{"longest number", limit.Every(math.MaxInt64), []string{"period 2562047h47m16.854775807s:"}},
		{"zero burst", limit.PerSecond(5).Burst(0), []string{"burst 0: must be 1 to 1000000000"}},
		{"negative burst", limit.PerSecond(5).Burst(-7), []string{"burst -7:"}},
		{"huge burst", limit.PerSecond(5).Burst(1_000_000_001), []string{"burst 1000000001:"}},
		{"refill too long", limit.PerDay(1).Burst(3661), []string{"burst 3661:", "87840h0m0s", "1 per 24h0m0s"}},
		{"rate too high", limit.Per(1_000_000_000, time.Second-1), []string{"rate 1000000000 per 999.999999ms:", "at most 1000000000 a second"}},
		{"quota and period", limit.Per(0, 0).Burst(-1), []string{"quota 0:", "period 0s:", "burst -1:"}},
		{"quota, long period and burst", limit.Per(-3, 400*day).Burst(0), []string{"quota -3:", "period 9600h0m0s:", "burst 0:"}},
		{"rate and burst", limit.Per(1_000_000_000, time.Millisecond).Burst(0), []string{"rate 1000000000 per 1ms:", "burst 0:"}},

		{"least", limit.PerSecond(1), nil},
		{"most", limit.PerSecond(1_000_000_000), nil},
		{"fastest", limit.Every(time.Nanosecond), nil},
		{"longest", limit.Every(366 * day), nil},
		{"longest refill", limit.PerDay(1).Burst(3660), nil},
		{"largest burst", limit.PerSecond(1_000_000).Burst(1_000_000_000), nil},
		{"a million a day", limit.PerDay(1_000_000), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.limit.Err()
			rule, compileErr := tc.limit.Compile()
			if tc.want == nil {
				if err != nil || compileErr != nil || rule == nil {
					t.Fatalf("Err is %v, Compile says %v, want none", err, compileErr)
				}
				return
			}
			if err == nil || compileErr == nil || rule != nil {
				t.Fatalf("Err is %v, Compile says %v, want faults and no rule", err, compileErr)
			}
			if err.Error() != compileErr.Error() {
				t.Errorf("Compile says %q, Err %q", compileErr, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, and says nothing of %q", err, want)
				}
			}
		})
	}
}

func TestConstructors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		limit  limit.Limit
		text   string
		burst  int64
		window time.Duration
	}{
		{limit.PerSecond(10), "10 per 1s", 10, time.Second},
		{limit.PerMinute(100), "100 per 1m0s", 100, time.Minute},
		{limit.PerHour(5), "5 per 1h0m0s", 5, time.Hour},
		{limit.PerDay(1000), "1000 per 24h0m0s", 1000, 24 * time.Hour},
		{limit.Every(250 * time.Millisecond), "1 per 250ms", 1, 250 * time.Millisecond},
		{limit.Per(3, 1500*time.Millisecond), "3 per 1.5s", 3, 1500 * time.Millisecond},
		{limit.PerMinute(100).Burst(100), "100 per 1m0s", 100, time.Minute},
		{limit.PerMinute(100).Burst(20), "100 per 1m0s, burst 20", 20, 12 * time.Second},
		{limit.PerMinute(100).Burst(5).Burst(250), "100 per 1m0s, burst 250", 250, 150 * time.Second},
		{limit.PerMinute(7).Burst(1), "7 per 1m0s, burst 1", 1, 8_571_429 * time.Microsecond},
	} {
		if got := tc.limit.String(); got != tc.text {
			t.Errorf("String is %q, want %q", got, tc.text)
		}
		r := compiled(t, tc.limit)
		if r.Limit() != tc.limit || r.Burst() != tc.burst || r.Window() != tc.window {
			t.Errorf("%s: the rule is of %s, burst %d, window %s; want burst %d, window %s",
				tc.limit, r.Limit(), r.Burst(), r.Window(), tc.burst, tc.window)
		}
	}
}

func TestBurstLeavesTheOriginal(t *testing.T) {
	t.Parallel()
	l := limit.PerMinute(100)
	_ = l.Burst(5)
	if l != limit.PerMinute(100) {
		t.Errorf("the limit became %s", l)
	}
}

// TestUsualLimitsAreExact lists limits that must not be quantised.
func TestUsualLimitsAreExact(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		quota  int
		period time.Duration
		burst  int // 0: the quota
	}{
		{1, time.Second, 0},
		{7, time.Second, 0},
		{999_983, time.Second, 0},
		{1_000_000, time.Second, 1_000_000_000},
		{3_000_000, time.Second, 100},
		{100, time.Minute, 0},
		{99_991, time.Minute, 0},
		{9_973, time.Hour, 0},
		{49_999, 24 * time.Hour, 0},
		{1_000_000, 24 * time.Hour, 0},
		{1, 333_333 * time.Microsecond, 0},
		{1, 720 * time.Hour, 0},
		{3, 1500 * time.Millisecond, 0},
		{3, 10 * time.Second, 0},
		{1, time.Nanosecond, 0},
	} {
		l := limit.Per(tc.quota, tc.period)
		if tc.burst > 0 {
			l = l.Burst(tc.burst)
		}
		if got, want := compiled(t, l).Interval(), interval(tc.quota, tc.period); got.Cmp(want) != 0 {
			t.Errorf("%s: a token takes %sµs, want %sµs", l, got, want)
		}
	}
}

// asked is a limit together with what it was made from.
type asked struct {
	limit.Limit
	quota, burst int
	period       time.Duration
}

// anyLimit draws a valid limit from all that are.
func anyLimit(t *rapid.T) (asked, *limit.Rule) {
	for range 100 {
		a := asked{
			quota:  rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 1_000_000), rapid.IntRange(1, 1_000_000_000), rapid.SampledFrom([]int{1, 7, 997, 99_991, 999_983, 999_999_937, 1_000_000_000})).Draw(t, "quota"),
			period: time.Duration(rapid.OneOf(rapid.Int64Range(1, int64(366*24*time.Hour)), rapid.Int64Range(1, int64(time.Second)), rapid.SampledFrom([]int64{1, 999, 1000, 1001, 1e9 - 1, 1e9, 60e9, 1500e6, 333_333e3, 3600e9, 86_400e9, 2_592_000e9, int64(366 * 24 * time.Hour)})).Draw(t, "period")),
		}
		a.burst = a.quota
		a.Limit = limit.Per(a.quota, a.period)
		if rapid.Bool().Draw(t, "bursty") {
			a.burst = rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 1_000_000_000)).Draw(t, "burst")
			a.Limit = a.Burst(a.burst)
		}
		if r, err := a.Compile(); err == nil {
			return a, r
		}
	}
	a := asked{Limit: limit.PerMinute(7), quota: 7, burst: 7, period: time.Minute}
	r, err := a.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return a, r
}

// TestQuantum checks that rounding only slows a limit, and by less than one in a million, and that all sums fit in 53 bits.
func TestQuantum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, r := anyLimit(t)
		checkQuantum(t, a, r)
	})
}

// TestQuantumOfAwkwardLimits has numbers that share no factor, so that the fraction is as long as it can be.
func TestQuantumOfAwkwardLimits(t *testing.T) {
	t.Parallel()
	for _, quota := range []int{1, 7, 99_991, 999_983, 999_999_937, 1_000_000_000} {
		for _, period := range []time.Duration{time.Second + 1, time.Minute - 1, 24*time.Hour + 1, 366*24*time.Hour - 1} {
			for _, burst := range []int{1, 2, 999_983, 999_999_937, 1_000_000_000} {
				a := asked{Limit: limit.Per(quota, period).Burst(burst), quota: quota, burst: burst, period: period}
				if r, err := a.Compile(); err == nil {
					checkQuantum(t, a, r)
				}
			}
		}
	}
}

func checkQuantum(t rapid.TB, a asked, r *limit.Rule) {
	exact, got := interval(a.quota, a.period), r.Interval()
	slower := new(big.Rat).Sub(got, exact)
	if slower.Sign() < 0 {
		t.Fatalf("%s: a token takes %sµs, less than the %sµs asked for", a, got, exact)
	}
	if slower.Quo(slower, exact).Cmp(big.NewRat(1, 1_000_000)) > 0 {
		t.Fatalf("%s: a token takes %sµs, more than a millionth above the %sµs asked for", a, got, exact)
	}
	if 2*r.Capacity() > limit.Exact || r.Capacity() <= 0 {
		t.Fatalf("%s: the capacity is %d", a, r.Capacity())
	}
	if r.MaxDebt() >= limit.Exact || r.MaxDebt() < r.Capacity() {
		t.Fatalf("%s: the capacity is %d, the largest debt %d", a, r.Capacity(), r.MaxDebt())
	}
	if r.Denominator() < 1 || r.Denominator() > math.MaxInt32 {
		t.Fatalf("%s: the denominator is %d", a, r.Denominator())
	}
	if r.Burst() != int64(a.burst) {
		t.Fatalf("%s: the burst is %d", a, r.Burst())
	}
	for _, cost := range []int64{0, 1, r.Burst()} {
		if units, ok := r.Units(cost); !ok || rat(units, r).Cmp(mul(got, cost)) != 0 {
			t.Fatalf("%s: cost %d is %d units, %v", a, cost, units, ok)
		}
	}
	for _, cost := range []int64{-1, r.Burst() + 1, math.MaxInt64, math.MinInt64} {
		if units, ok := r.Units(cost); ok || units != 0 {
			t.Fatalf("%s: cost %d is %d units, %v, want not ok", a, cost, units, ok)
		}
	}
}

// interval returns the time a token takes in microseconds, as it was asked for.
func interval(quota int, period time.Duration) *big.Rat {
	return new(big.Rat).Quo(big.NewRat(int64(period), 1000), big.NewRat(int64(quota), 1))
}

// rat returns units of r in microseconds.
func rat(units int64, r *limit.Rule) *big.Rat { return big.NewRat(units, r.Denominator()) }

func mul(a *big.Rat, n int64) *big.Rat { return new(big.Rat).Mul(a, big.NewRat(n, 1)) }

func compiled(tb testing.TB, l limit.Limit) *limit.Rule {
	tb.Helper()
	r, err := l.Compile()
	if err != nil {
		tb.Fatalf("limit %s: %v", l, err)
	}
	return r
}
