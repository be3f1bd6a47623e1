package limit_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trafficguard-go/trafficguard/limit"
)

// A model is a token bucket in rational arithmetic, written from the definition and not from the code: it knows nothing of
// units, fractions or largest integers.
type model struct {
	interval *big.Rat // microseconds a token, as quantised
	burst    int64
	most     *big.Rat // microseconds of debt beyond which nothing is counted
	full     *big.Rat // the instant, in microseconds
	over     bool     // a settlement went past the burst
}

func newModel(r *limit.Rule) *model {
	return &model{interval: r.Interval(), burst: r.Burst(), most: rat(r.MaxDebt(), r), full: new(big.Rat)}
}

func (m *model) whole() *big.Rat { return mul(m.interval, m.burst) }

// owed returns how long the bucket takes to be full from now on. More than a burst can be owed after a settlement only: what
// a clock that went back makes of it is cut.
func (m *model) owed(now int64) *big.Rat {
	most := m.whole()
	if m.over {
		most = m.most
	}
	return clamp(new(big.Rat).Sub(m.full, big.NewRat(now, 1)), most)
}

func (m *model) owe(now int64, owed *big.Rat) {
	m.full = new(big.Rat).Add(big.NewRat(now, 1), owed)
	m.over = owed.Cmp(m.whole()) > 0
}

func (m *model) take(now, cost int64) limit.Verdict {
	owed := m.owed(now)
	if m.full.Cmp(new(big.Rat).Add(big.NewRat(now, 1), owed)) > 0 {
		m.owe(now, owed) // cut for good, or else the wait would be too short
	}
	after := new(big.Rat).Add(owed, mul(m.interval, cost))
	lacking := new(big.Rat).Sub(after, m.whole())
	switch {
	case cost > m.burst:
		return m.verdict(owed, limit.Verdict{Wait: limit.Never})
	case lacking.Sign() > 0:
		return m.verdict(owed, limit.Verdict{Wait: micros(lacking)})
	}
	m.owe(now, after)
	return m.verdict(after, limit.Verdict{OK: true})
}

func (m *model) verdict(owed *big.Rat, v limit.Verdict) limit.Verdict {
	v.Full = micros(owed)
	tokens := new(big.Rat).Quo(new(big.Rat).Sub(m.whole(), owed), m.interval)
	if tokens.Sign() > 0 {
		v.Remaining = new(big.Int).Quo(tokens.Num(), tokens.Denom()).Int64()
	}
	return v
}

// settle corrects a charge that left the bucket to be full at that instant.
func (m *model) settle(now int64, full *big.Rat, cost, actual int64) {
	owed := m.owed(now)
	cut := m.full.Cmp(new(big.Rat).Add(big.NewRat(now, 1), owed)) > 0 // another rule may owe that: it is moved, not counted
	if actual > cost {
		more := new(big.Rat).Mul(m.interval, new(big.Rat).SetInt64(actual-cost))
		if cut {
			m.shift(clamp(more, m.most), 1, now+century)
			return
		}
		m.owe(now, clamp(more.Add(more, owed), m.most))
		return
	}
	left := clamp(new(big.Rat).Sub(full, big.NewRat(now, 1)), m.most)
	back := clamp(mul(m.interval, cost-actual), left)
	if cut {
		m.shift(back, -1, now+century)
		return
	}
	if back.Sign() > 0 {
		m.owe(now, clamp(new(big.Rat).Sub(owed, back), m.most))
	}
}

const century = 3_153_600_000_000_000

// shift moves the instant by the whole microseconds in d, not beyond most if that is ahead.
func (m *model) shift(d *big.Rat, sign, most int64) {
	n := new(big.Int).Quo(d.Num(), d.Denom()).Int64()
	next := new(big.Rat).Add(m.full, big.NewRat(sign*n, 1))
	if limit := big.NewRat(most, 1); sign > 0 && next.Cmp(limit) > 0 {
		if m.full.Cmp(limit) >= 0 {
			return
		}
		whole := new(big.Int).Quo(m.full.Num(), m.full.Denom())
		next = limit.Add(limit, new(big.Rat).Sub(m.full, new(big.Rat).SetInt(whole)))
	}
	m.full = next
}

// clamp returns x, at least 0 and at most most.
func clamp(x, most *big.Rat) *big.Rat {
	switch {
	case x.Sign() < 0:
		return new(big.Rat)
	case x.Cmp(most) > 0:
		return new(big.Rat).Set(most)
	}
	return x
}

// micros rounds up to whole microseconds.
func micros(x *big.Rat) time.Duration {
	n, rest := new(big.Int).QuoRem(x.Num(), x.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	return time.Duration(n.Int64()) * time.Microsecond
}

// A charge is a grant that can be settled.
type charge struct {
	at   limit.State
	full *big.Rat
	cost int64
}

// A schedule sends the same requests to a rule and to its model.
type schedule struct {
	*rapid.T
	rule    *limit.Rule
	model   *model
	state   limit.State
	now     int64
	moments []int64 // at which refused requests were told to return
	charges []charge
}

// TestRuleIsRationalArithmetic compares every verdict over random schedules: the admitted sets are equal, and waits,
// remaining quota and times to full are exact.
func TestRuleIsRationalArithmetic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, r := anyLimit(t)
		s := &schedule{T: t, rule: r, model: newModel(r), now: rapid.Int64Range(1_700_000_000_000_000, 7_000_000_000_000_000).Draw(t, "start")}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			s.move()
			if len(s.charges) > 0 && rapid.IntRange(0, 4).Draw(t, "settle") == 0 {
				s.settle()
			} else {
				s.take()
			}
		}
	})
}

// TestUsualRates runs long schedules of the limits that people use, without settlements, so that most steps are decisions
// at the edge.
func TestUsualRates(t *testing.T) {
	t.Parallel()
	for _, l := range []limit.Limit{
		limit.PerSecond(7), limit.Per(3, 10*time.Second), limit.PerMinute(100), limit.PerSecond(997).Burst(2000),
		limit.PerSecond(999_983), limit.PerSecond(3_000_000).Burst(100), limit.PerSecond(1_000_000), limit.Every(720 * time.Hour),
		limit.Per(3, 1500*time.Millisecond), limit.Every(333_333 * time.Microsecond), limit.PerSecond(1_000_000_000),
		limit.PerDay(999_999_937), limit.PerDay(100_003),
	} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			r := compiled(t, l)
			rapid.Check(t, func(t *rapid.T) {
				s := &schedule{T: t, rule: r, model: newModel(r), now: 1_800_000_000_000_000}
				for range 100 {
					s.move()
					s.take()
				}
			})
		})
	}
}

// move moves the time: half of the time to a moment that a refusal named, or a microsecond before or after; else not
// at all, or a little or a lot ahead, or back.
func (s *schedule) move() {
	if n := len(s.moments); n > 0 && rapid.Bool().Draw(s.T, "edge") {
		s.now = s.moments[rapid.IntRange(max(0, n-4), n-1).Draw(s.T, "moment")] + rapid.Int64Range(-1, 1).Draw(s.T, "off")
		return
	}
	window := max(4, s.rule.Window().Microseconds())
	switch rapid.IntRange(0, 9).Draw(s.T, "move") {
	case 0, 1, 2:
	case 3, 4, 5:
		s.now += rapid.Int64Range(0, window/4).Draw(s.T, "ahead")
	case 6:
		s.now += rapid.Int64Range(0, 3*window).Draw(s.T, "far ahead")
	case 7:
		s.now += rapid.Int64Range(0, 50).Draw(s.T, "microseconds")
	case 8:
		s.now -= rapid.Int64Range(0, window/4).Draw(s.T, "back")
	case 9:
		s.now -= rapid.Int64Range(0, 1_000_000_000_000).Draw(s.T, "far back")
		s.now = max(s.now, 0)
	}
}

func (s *schedule) cost() int64 {
	burst := s.rule.Burst()
	return rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, min(burst, 5)), rapid.Int64Range(1, burst),
		rapid.Just(burst), rapid.Int64Range(burst+1, 1<<62)).Draw(s.T, "cost")
}

func (s *schedule) take() {
	cost, before := s.cost(), s.state
	next, got := s.rule.Take(s.state, s.now, cost)
	want := s.model.take(s.now, cost)
	if got != want {
		s.Fatalf("%s, cost %d at %d: %+v, the model says %+v", s.rule.Limit(), cost, s.now, got, want)
	}
	s.state = next
	s.same("Take")
	if got.OK {
		s.charges = append(s.charges, charge{at: next, full: new(big.Rat).Set(s.model.full), cost: cost})
		return
	}
	if next != before && s.rule.Debt(next, s.now) != s.rule.Debt(before, s.now) {
		s.Fatalf("%s: a refusal changed what is owed: %+v became %+v", s.rule.Limit(), before, next)
	}
	if got.Wait == limit.Never {
		return
	}
	// The wait is the smallest number of whole microseconds after which the request passes.
	at := s.now + got.Wait.Microseconds()
	if _, v := s.rule.Take(next, at, cost); !v.OK {
		s.Fatalf("%s, cost %d: told to wait %s, and refused then: %+v", s.rule.Limit(), cost, got.Wait, v)
	}
	if _, v := s.rule.Take(next, at-1, cost); v.OK || v.Wait != time.Microsecond {
		s.Fatalf("%s, cost %d: told to wait %s; 1µs before that: %+v", s.rule.Limit(), cost, got.Wait, v)
	}
	s.moments = append(s.moments, at)
}

func (s *schedule) settle() {
	i := rapid.IntRange(0, len(s.charges)-1).Draw(s.T, "charge")
	c := s.charges[i]
	s.charges = append(s.charges[:i:i], s.charges[i+1:]...)
	actual := rapid.OneOf(rapid.Int64Range(0, c.cost), rapid.Just(c.cost), rapid.Int64Range(c.cost, 2*s.rule.Burst()+1),
		rapid.Just(int64(1<<63-1))).Draw(s.T, "actual")
	s.state = s.rule.Settle(s.state, s.now, c.at, c.cost, actual)
	s.model.settle(s.now, c.full, c.cost, actual)
	s.same("Settle")
}

// same checks that the rule and the model keep the same.
func (s *schedule) same(after string) {
	owed := s.model.owed(s.now)
	if got := s.rule.Debt(s.state, s.now); rat(got, s.rule).Cmp(owed) != 0 {
		s.Fatalf("%s, after %s at %d: %sµs are owed, the model says %sµs", s.rule.Limit(), after, s.now, rat(got, s.rule).FloatString(6), owed.FloatString(6))
	}
	if s.state.Over != s.model.over && owed.Sign() > 0 {
		s.Fatalf("%s, after %s: over the burst is %v, the model says %v", s.rule.Limit(), after, s.state.Over, s.model.over)
	}
	if s.state.Frac < 0 || s.state.Frac >= s.rule.Denominator() || s.state.At < 0 {
		s.Fatalf("%s, after %s: the state is %+v", s.rule.Limit(), after, s.state)
	}
}
