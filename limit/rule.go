package limit

import (
	"errors"
	"math"
	"math/big"
	"time"
)

// Exact is the bound below which doubles, and so Redis scripts, count without gaps.
const Exact = 1 << 53

const (
	maxDenominator = math.MaxInt32
	// maxOwed bounds what a late settlement can put a subject into debt by, in microseconds: about a century.
	maxOwed = 3_153_600_000_000_000
)

// Never is the [Verdict.Wait] of a request that no waiting will let pass.
const Never time.Duration = -1

// ErrCost is returned for a cost below one where a request is to be decided, or below zero where it is
// settled.
var ErrCost = errors.New("limit: the cost is out of range")

// A Rule is a [Limit] made ready to decide: checked, and turned into integers. Debts are counted in units of
// 1/[Rule.Denominator] of a microsecond. A Rule is immutable and safe for concurrent use.
//
// A Rule holds one limit today. It is what stores take, so that several limits which are charged together will
// be one Rule too.
type Rule struct {
	limit    Limit
	burst    int64
	n        int64 // units in a microsecond
	unit     int64 // units that one token owes
	capacity int64 // units that a whole burst owes
	bound    int64 // units that can be owed without a settlement: capacity, or that of a rule beside this one
	maxDebt  int64
}

// Compile checks l and makes it ready. The error holds every fault, see [Limit.Err].
func (l Limit) Compile() (*Rule, error) {
	if err := l.Err(); err != nil {
		return nil, err
	}
	r := &Rule{limit: l, burst: int64(l.size())}
	r.n, r.unit = interval(l, r.burst)
	r.capacity = r.unit * r.burst
	r.bound = r.capacity
	r.maxDebt = Exact - 1
	if r.n < Exact/maxOwed+1 {
		r.maxDebt = min(r.maxDebt, maxOwed*r.n)
	}
	return r, nil
}

// Beside returns r for subjects that may stand under others at other times, as plans come and go: what they owe there they
// owe here, for as long as it takes. Without it a debt beyond r's burst is cut to that, and who can choose between two
// plans would pay off the larger debt by one request under the smaller plan.
func (r *Rule) Beside(others ...*Rule) *Rule {
	beside := *r
	for _, o := range others {
		micros, rest := o.micros(o.bound)
		if rest > 0 {
			micros++
		}
		units := r.maxDebt
		if micros < units/r.n {
			units = micros * r.n
		}
		beside.bound = max(beside.bound, units)
	}
	return &beside
}

// interval returns the time that one token takes, unit/n microseconds in lowest terms, such that a whole burst
// fits twice below Exact. Where the exact fraction does not, it is rounded up, toward refusal, to the finest
// one that does.
func interval(l Limit, burst int64) (n, unit int64) {
	exact := big.NewRat(int64(l.period), 1000*int64(l.quota))
	widest := big.NewInt(Exact / 2 / burst)
	if exact.Num().Cmp(widest) <= 0 && exact.Denom().Cmp(big.NewInt(maxDenominator)) <= 0 {
		return exact.Denom().Int64(), exact.Num().Int64()
	}
	steps := new(big.Int).Mul(widest, exact.Denom())
	steps.Quo(steps, exact.Num())
	if most := big.NewInt(maxDenominator); steps.Cmp(most) > 0 {
		steps = most
	}
	up := new(big.Int).Mul(steps, exact.Num())
	up.Add(up, exact.Denom()).Sub(up, big.NewInt(1)).Quo(up, exact.Denom())
	return steps.Int64(), up.Int64()
}

// Limit returns the limit that r was compiled from.
func (r *Rule) Limit() Limit { return r.limit }

// Burst returns what a subject can spend at once.
func (r *Rule) Burst() int64 { return r.burst }

// Window returns the time in which a whole burst grows again, rounded up to a microsecond.
func (r *Rule) Window() time.Duration { return r.duration(r.capacity) }

// Denominator returns how many units of debt a microsecond pays back.
func (r *Rule) Denominator() int64 { return r.n }

// Capacity returns the debt of a subject that has spent its whole burst, in units.
func (r *Rule) Capacity() int64 { return r.capacity }

// Bound returns the debt beyond which a state is not believed unless a settlement has made it, in units: the capacity,
// or more for a rule [Rule.Beside] others.
func (r *Rule) Bound() int64 { return r.bound }

// MaxDebt returns the debt beyond which settlements are not counted, in units.
func (r *Rule) MaxDebt() int64 { return r.maxDebt }

// Units returns the debt that cost adds. ok is false where the cost is more than the burst: it can never pass.
func (r *Rule) Units(cost int64) (units int64, ok bool) {
	if cost < 0 || cost > r.burst {
		return 0, false
	}
	return cost * r.unit, true
}

// Interval returns the exact time that one token takes under r, in microseconds: the limit's own, or where it was
// quantised the next representable one above.
func (r *Rule) Interval() *big.Rat { return big.NewRat(r.unit, r.n) }

// A State is what is kept of a subject: the instant at which its bucket is full again. The zero State is that
// of a subject never seen. States of different rules have the same layout: under another rule a subject keeps
// the instant, to within a microsecond, and owes no more than that rule's [Rule.Bound].
type State struct {
	// At is the whole microseconds since 1970 (or any other zero that the store keeps to).
	At int64
	// Frac is the rest, in units of the rule that wrote it.
	Frac int64
	// Over says that a settlement has put the subject further into debt than the rule's bound; the debt is then
	// taken as it is, not cut to that.
	Over bool
}

// Debt returns what s owes at now, in units: 0 for a full bucket, at most [Rule.Bound] unless s.Over.
func (r *Rule) Debt(s State, now int64) int64 {
	debt, _ := r.debt(s, now)
	return debt
}

// debt also reports whether s owed more than can be owed, so that the debt is not the whole of it.
func (r *Rule) debt(s State, now int64) (debt int64, cut bool) {
	top := r.bound
	if s.Over {
		top = r.maxDebt
	}
	return r.owed(s, now, top)
}

func (r *Rule) owed(s State, now, top int64) (debt int64, cut bool) {
	gap := s.At - now
	if gap < 0 {
		return 0, false
	}
	if most, _ := r.micros(top); gap > most {
		return top, true
	}
	debt = gap*r.n + min(s.Frac, r.n-1)
	return min(debt, top), debt > top
}

// StateAt returns the state that owes debt at now.
func (r *Rule) StateAt(now, debt int64) State {
	whole, rest := r.micros(debt)
	return State{At: now + whole, Frac: rest, Over: debt > r.bound}
}

// A Verdict is what a limit says to a request.
type Verdict struct {
	// OK is whether it may pass.
	OK bool
	// Remaining is how much can be spent right after it, at the same instant.
	Remaining int64
	// Wait is how long it takes until the same request can pass: 0 if OK, [Never] if its cost is more than the
	// burst. A request exactly Wait later passes if nothing was spent in between; a microsecond earlier it does not.
	Wait time.Duration
	// Full is how long it takes until the bucket is full again.
	Full time.Duration
}

// Take decides a request of the given cost at now. It returns the state to keep. On a refusal that is s itself,
// unless s owes more than [Rule.Bound] without a settlement: a clock went back, or the limit was larger before. Then it is
// the debt as it was cut, since the wait would not be enough otherwise, and nobody would ever be let in again by a clock that
// went back for good. The cost must be at least 1.
func (r *Rule) Take(s State, now, cost int64) (State, Verdict) {
	debt, cut := r.debt(s, now)
	units, ok := r.Units(cost)
	if !ok || debt+units > r.capacity {
		if cut {
			s = r.StateAt(now, debt)
		}
		return s, r.Verdict(debt, cost, false)
	}
	debt += units
	return r.StateAt(now, debt), r.Verdict(debt, cost, true)
}

// Verdict says what a debt means to a request of the given cost: the debt after it if it was admitted, else the
// one that it met. It is for stores that decide elsewhere and learn only the debt.
func (r *Rule) Verdict(debt, cost int64, admitted bool) Verdict {
	v := Verdict{OK: admitted, Full: r.duration(debt)}
	if debt < r.capacity {
		v.Remaining = (r.capacity - debt) / r.unit
	}
	if admitted {
		return v
	}
	units, ok := r.Units(cost)
	if !ok {
		v.Wait = Never
		return v
	}
	v.Wait = r.duration(debt + units - r.capacity)
	return v
}

// Settle corrects the cost of one earlier grant: at is the state that the grant left, cost what it was charged,
// actual what it should have been. It returns the state to keep.
//
// A smaller cost gives back at most what time has not given back already: a bucket that has been full since is not
// filled twice. That is judged as if nothing else had been settled or reset since the grant: where it was, as much as the
// grant's own charge can come back too much. A larger cost is charged in full, as of now, past the burst if need be, up to
// [Rule.MaxDebt]; that debt is waited for.
//
// Where s owes more than a burst under another rule, because the subject's plan changed meanwhile, that debt is moved by the
// correction and not cut: it is not this grant's to forgive.
func (r *Rule) Settle(s State, now int64, at State, cost, actual int64) State {
	debt, cut := r.debt(s, now)
	if actual > cost {
		more := r.extra(actual - cost)
		if cut {
			s.At = max(s.At, min(s.At+more/r.n, now+maxOwed))
			return s
		}
		return r.StateAt(now, min(debt+more, r.maxDebt))
	}
	left, _ := r.owed(at, now, r.maxDebt)
	back := min((cost-actual)*r.unit, left)
	switch {
	case back == 0:
		return s
	case cut:
		s.At -= back / r.n
		return s
	default:
		return r.StateAt(now, max(0, debt-back))
	}
}

// extra returns the units of an up-charge, which has no bound of its own.
func (r *Rule) extra(tokens int64) int64 {
	if tokens > r.maxDebt/r.unit {
		return r.maxDebt
	}
	return tokens * r.unit
}

func (r *Rule) duration(units int64) time.Duration {
	if units <= 0 {
		return 0
	}
	whole, rest := r.micros(units)
	if rest != 0 {
		whole++
	}
	return time.Duration(whole) * time.Microsecond
}

// micros returns units as whole microseconds and the rest. Most limits have a denominator of 1, and dividing is what
// costs most in a decision.
func (r *Rule) micros(units int64) (whole, rest int64) {
	if r.n == 1 {
		return units, 0
	}
	return units / r.n, units % r.n
}
