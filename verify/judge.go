package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
)

// A shot is one request and what became of it.
type shot struct {
	by     string // the process that was asked
	sent   time.Time
	got    time.Time
	status int // 0: no answer
	header http.Header
}

func (s shot) admitted() bool { return s.status == http.StatusOK }
func (s shot) refused() bool  { return s.status == http.StatusTooManyRequests }

// degraded says that an Event of the server called the pass degraded: nobody could decide.
func (s shot) degraded() bool { return s.header.Get(degradedHeader) != "" }

// number returns a header that holds one, -1 where it is missing or holds none.
func (s shot) number(header string) int {
	n, err := strconv.Atoi(s.header.Get(header))
	if err != nil {
		return -1
	}
	return n
}

func (s shot) remaining() int { return s.number("RateLimit-Remaining") }

// retryAfter returns what a refusal says, 0 where it says nothing.
func (s shot) retryAfter() time.Duration {
	return time.Duration(max(0, s.number("Retry-After"))) * time.Second
}

type shots []shot

func (s shots) count(what func(shot) bool) int {
	n := 0
	for _, shot := range s {
		if what(shot) {
			n++
		}
	}
	return n
}

// widest returns the longest time that can lie between the first and the last decision.
func (s shots) widest() (from, to time.Time) {
	from, to = s[0].sent, s[0].got
	for _, shot := range s {
		from = earlier(from, shot.sent)
		to = later(to, shot.got)
	}
	return from, to
}

// narrowest returns the shortest time that can lie between the first decision and the last refusal. Until then at least
// everything must have been given out.
func (s shots) narrowest() (from, to time.Time) {
	from = s[0].got
	for _, shot := range s {
		from = earlier(from, shot.got)
	}
	to = from
	for _, shot := range s {
		if shot.refused() {
			to = later(to, shot.sent)
		}
	}
	return from, to
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// A verdict is the content of one cell.
type verdict struct {
	numbers string // what was measured
	fault   string // what is wrong with it; "" where the limit held
	over    bool   // the fault is that too many were admitted
	info    bool   // nothing was judged
	skipped bool   // the scenario says nothing about the variant
}

// unsound returns what makes shots unfit to be judged by their number.
func (s shots) unsound() string {
	if n := len(s) - s.count(shot.admitted) - s.count(shot.refused); n > 0 {
		return fmt.Sprintf("%d of %d requests got neither 200 nor 429", n, len(s))
	}
	if n := s.count(shot.degraded); n > 0 {
		return fmt.Sprintf("%d of %d requests passed undecided", n, len(s))
	}
	return ""
}

// judgeCount compares how many requests of one user were admitted with what is promised. The refill is that of the time
// measured, so there is no tolerance beyond how well the two ends of that time are known.
func judgeCount(allows allowance, q quota, got shots) verdict {
	if fault := got.unsound(); fault != "" {
		return verdict{fault: fault}
	}
	from, to := got.narrowest()
	least, _ := allows(q, from, to)
	from, to = got.widest()
	_, most := allows(q, from, to)
	return judgeNumber(got.count(shot.admitted), least, most)
}

func judgeNumber(n, least, most int) verdict {
	v := verdict{numbers: strconv.Itoa(n)}
	if least != most {
		v.numbers = fmt.Sprintf("%d in %d..%d", n, least, most)
	}
	switch {
	case n > most:
		v.over = true
		v.fault = fmt.Sprintf("%d were admitted, at most %d may be", n, most)
	case n < least:
		v.fault = fmt.Sprintf("%d were admitted, at least %d must be", n, least)
	}
	return v
}

// together makes one verdict of several rounds: each must hold.
func together(rounds []verdict) verdict {
	var all verdict
	var numbers, faults []string
	for _, v := range rounds {
		numbers = append(numbers, v.numbers)
		if v.fault != "" {
			faults = append(faults, v.fault)
		}
		all.over = all.over || v.over
	}
	all.numbers = strings.Join(numbers, " ")
	if len(slices.Compact(numbers)) == 1 {
		all.numbers = fmt.Sprintf("%dx %s", len(rounds), numbers[0])
	}
	if len(faults) > 0 {
		all.fault = fmt.Sprintf("%s (%d of %d rounds)", faults[0], len(faults), len(rounds))
	}
	return all
}

// judgeDescending wants n requests, sent in turn, all admitted, with a Remaining that never rises and ends at 0.
func judgeDescending(got shots) verdict {
	if fault := got.unsound(); fault != "" {
		return verdict{fault: fault}
	}
	first, last := got[0].remaining(), got[len(got)-1].remaining()
	v := verdict{numbers: fmt.Sprintf("%d down to %d", first, last)}
	for i, s := range got {
		if s.remaining() < 0 {
			v.fault = fmt.Sprintf("answer %d does not tell what remains", i+1)
			return v
		}
		if i > 0 && s.remaining() > got[i-1].remaining() {
			v.fault = fmt.Sprintf("Remaining rose from %d to %d at request %d", got[i-1].remaining(), s.remaining(), i+1)
			return v
		}
	}
	if last != 0 {
		v.fault = fmt.Sprintf("the quota is spent and %d remain", last)
	}
	return v
}

// A reading is what the last answer said and what Redis held right after it.
type reading struct {
	said  shot
	spent int // requests admitted so far
	held  limit.Verdict
}

// judgeReading compares the headers with the number of requests that were admitted and with the state in Redis.
func judgeReading(q quota, r reading) string {
	if r.said.refused() {
		wait := r.held.Wait
		if got := r.said.retryAfter(); got < wait || got > wait+2*time.Second {
			return fmt.Sprintf("Retry-After says %s, the state %s", got, wait)
		}
		if r.said.remaining() != 0 {
			return fmt.Sprintf("a refusal says that %d remain", r.said.remaining())
		}
		return ""
	}
	want := q.n - r.spent
	if n := r.said.number("RateLimit-Limit"); n != q.n {
		return fmt.Sprintf("RateLimit-Limit says %d, the limit is %d", n, q.n)
	}
	if r.said.remaining() != want {
		return fmt.Sprintf("RateLimit-Remaining says %d after %d requests of %d", r.said.remaining(), r.spent, q.n)
	}
	// What Redis tells is what the next request would leave.
	if left := r.held.Remaining; r.held.OK != (want > 0) || left != int64(max(0, want-1)) {
		return fmt.Sprintf("RateLimit-Remaining says %d, by the state the next request would leave %d", want, left)
	}
	return ""
}

// A comeback is a user who is refused, comes back too early, and again when told to.
type comeback struct{ first, refused, early, due shot }

// tooEarly is how long before the end of Retry-After nobody may be let in. Retry-After is in whole seconds, rounded up, so
// a second earlier somebody may.
const tooEarly = 1500 * time.Millisecond

// void says that the early request was held up so long that it may rightly have passed.
func (c comeback) void() bool {
	return c.early.got.After(c.refused.sent.Add(c.refused.retryAfter() - time.Second))
}

// fault says what the limiter did wrong to the user.
func (c comeback) fault() string {
	said := c.refused.retryAfter()
	switch unsound := (shots{c.first, c.refused, c.early, c.due}).unsound(); {
	case unsound != "":
		return unsound
	case !c.first.admitted() || !c.refused.refused():
		return "of two requests at once the first must pass and the second not"
	case !c.due.admitted():
		return fmt.Sprintf("refused exactly after Retry-After, %s", said)
	case c.early.admitted() && !c.void():
		return fmt.Sprintf("admitted 1.5 s before the end of Retry-After, %s", said)
	default:
		return ""
	}
}

// judgeComebacks wants everyone admitted who waited as told and nobody who came 1.5 s before that.
func judgeComebacks(all []comeback) verdict {
	var faults, waits []string
	void := 0
	for i, c := range all {
		waits = append(waits, strconv.Itoa(int(c.refused.retryAfter().Seconds())))
		if fault := c.fault(); fault != "" {
			faults = append(faults, fmt.Sprintf("user %d: %s", i+1, fault))
		} else if c.void() {
			void++
		}
	}
	if 2*void > len(all) {
		faults = append(faults, fmt.Sprintf("%d of %d early requests were held up too long to tell", void, len(all)))
	}
	slices.Sort(waits)
	v := verdict{numbers: fmt.Sprintf("%d users, %s s", len(all)-void, strings.Join(slices.Compact(waits), "/"))}
	if len(faults) > 0 {
		v.fault = faults[0]
	}
	return v
}

// An outage is when a server was gone, when one was there again, and for how long before its end its charges are unsure.
type outage struct {
	struck, mended time.Time
	unsure         time.Duration
}

// backIn is how soon after the server's return the limit must be in force again, in every process.
const backIn = 5 * time.Second

// enforced returns how long after the server's return the last process refused on the strength of it, and whether all have.
func (o outage) enforced(got shots) (time.Duration, bool) {
	first := map[string]time.Time{}
	for _, s := range got {
		if at, ok := first[s.by]; s.refused() && s.sent.After(o.mended) && (!ok || s.got.Before(at)) {
			first[s.by] = s.got
		}
	}
	var last time.Duration
	for _, at := range first {
		last = max(last, at.Sub(o.mended))
	}
	return last, len(first) == len(frameworks)
}

// judgeOutage wants no more admitted than the limit, the passes that the servers called degraded, and what was charged so
// shortly before the end of a server that another may not know it.
func judgeOutage(allows allowance, q quota, o outage, got shots) verdict {
	undecided := got.count(shot.degraded)
	charged := got.count(shot.admitted) - undecided
	after, all := o.enforced(got)

	from, to := got.narrowest()
	least, _ := allows(q, from, to)
	from, to = got.widest()
	_, most := allows(q, from, to)
	// Who was being served when the server died may have been charged without an answer.
	least -= got.count(func(s shot) bool { return s.degraded() && s.sent.Before(o.struck) })
	most += got.count(func(s shot) bool {
		return s.admitted() && !s.degraded() && s.sent.Before(o.struck) && s.got.After(o.struck.Add(-o.unsure))
	})
	count := judgeNumber(charged, least, most)
	v := verdict{numbers: fmt.Sprintf("%s +%d, %.1f s", count.numbers, undecided, after.Seconds())}
	switch {
	case len(got) != got.count(shot.admitted)+got.count(shot.refused):
		v.fault = "some requests got neither 200 nor 429"
	case count.fault != "":
		v.fault = fmt.Sprintf("besides %d degraded passes %s", undecided, count.fault)
	case undecided == 0:
		v.fault = "the outage was not felt: nothing is shown"
	case !all || after > backIn:
		v.fault = fmt.Sprintf("%s after the server's return not every process enforced the limit", backIn)
	}
	return v
}

// quantile returns the value below which a share q of the sorted values lies.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
