package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// inline is the number of policies whose decisions fit on the chain's stack. More are fine; they cost an
// allocation.
const inline = 8

// A Chain is an ordered list of policies, compiled once, run for every request of a route. It is immutable
// and safe for concurrent use. Build it with [TrafficGuard.Chain]; the zero Chain is not usable.
type Chain struct {
	tg       *TrafficGuard
	links    []link
	requires Requirement
}

// A link is a policy with everything about it that does not change from request to request.
type link struct {
	policy   GuardPolicy
	name     string
	mode     FailureMode
	requires Requirement
	quiet    *quieter
	said     *lastDocument
}

// held is a policy that admitted and is owed its After.
type held struct {
	link *link
	d    Decision
}

// entered are the policies that admitted, in order. It lives on Do's stack and must not be reached from a [run]:
// the compiler would move it to the heap with what a run hands to policies.
type entered struct {
	first [inline]held
	rest  []held
	n     int
}

func (e *entered) push(h held) {
	if e.n < inline {
		e.first[e.n] = h
	} else {
		e.rest = append(e.rest, h)
	}
	e.n++
}

func (e *entered) pop() held {
	e.n--
	if e.n < inline {
		return e.first[e.n]
	}
	return e.rest[e.n-inline]
}

// Chain compiles policies, the first outermost. It copies the slice. A nil TrafficGuard is like a zero one.
//
// It panics, as routers do at this point, if a policy is nil or its name cannot be used, or if another
// policy of this TrafficGuard has the same name.
func (tg *TrafficGuard) Chain(policies ...GuardPolicy) *Chain {
	if tg == nil {
		tg = new(TrafficGuard)
	}
	c := &Chain{tg: tg, links: make([]link, 0, len(policies))}
	var faults []error
	for i, p := range policies {
		l, err := tg.link(p)
		if err != nil {
			faults = append(faults, fmt.Errorf("policy %d: %w", i+1, err))
			continue
		}
		c.links = append(c.links, l)
		c.requires |= l.requires
	}
	if err := errors.Join(faults...); err != nil {
		panic(fmt.Sprintf("guard: %v", err))
	}
	return c
}

func (tg *TrafficGuard) link(p GuardPolicy) (link, error) {
	if err := checkPolicy(p); err != nil {
		return link{}, err
	}
	l := link{policy: bare(p), mode: tg.modeOf(p), quiet: new(quieter), said: new(lastDocument)}
	name, own := tg.nameOf(p)
	l.name = name
	if own {
		if err := checkName(name); err != nil {
			return link{}, fmt.Errorf("name %q: %w", name, err)
		}
		if err := tg.claim(name, &registered{p, name, false}); err != nil {
			return link{}, err
		}
	}
	if r, ok := find[Requiring](p); ok {
		l.requires = r.Requires()
	}
	return l, nil
}

// modeOf returns the failure mode of p: what FailOpen or FailClosed said, else what p says itself, else
// what holds for all.
func (tg *TrafficGuard) modeOf(p GuardPolicy) FailureMode {
	if m, ok := find[Failing](p); ok && m.FailureMode() != Inherit {
		return m.FailureMode()
	}
	if tg.FailureMode != Inherit {
		return tg.FailureMode
	}
	return Open
}

// Requires returns what the policies of the chain ask for, together. Adapters look for [RequireStatus].
func (c *Chain) Requires() Requirement { return c.requires }

// Do runs next inside the chain. It returns a Rejection if and only if next was not called; the headers of
// the refusal are set then, and the adapter owes the client [Chain.Answer]. Otherwise it returns next's
// error unchanged.
//
// next returns the response's status, 0 where it is not known, and what the handler returned. Where that is
// or wraps a *Rejection, an inner chain refused and the handler has not run: After sees Ran false then.
//
// A panic in next passes through, after all After hooks.
func (c *Chain) Do(x Exchange, next func() (status int, err error)) (*Rejection, error) {
	var in entered
	r := run{chain: c, x: x, req: x.Request()}
	r.ctx = r.req.Context()
	defer r.leave(&in)

	if r.out.Refused = r.enter(&in); r.out.Refused != nil {
		return r.out.Refused, nil
	}
	r.moved = x.Request() != r.req
	r.out.Ran, r.out.Panicked = true, true // until next has returned: it may panic or call Goexit
	if c.requires&RequireLatency != 0 {
		r.start = time.Now()
	}
	status, err := next()
	r.out.Panicked, r.out.Status, r.out.Err = false, status, err
	if err != nil {
		var inner *Rejection
		r.out.Ran = !errors.As(err, &inner)
	}
	return nil, err
}

// A run is one passage of one exchange through a chain. It lives on Do's stack.
type run struct {
	chain *Chain
	x     Exchange
	req   *http.Request
	ctx   context.Context
	out   Outcome
	start time.Time
	moved bool // a policy set another context

	budget *budget // nil until a policy needs it
}

// enter asks the policies in order. It returns the rejection of the first that refuses.
func (r *run) enter(in *entered) *Rejection {
	var tightest Quota
	var name string
	for i := range r.chain.links {
		l := &r.chain.links[i]
		if !l.policy.Supports(r.x) {
			continue
		}
		d, err := l.policy.Before(r.within(r.x.Request().Context(), l), r.x)
		if err != nil {
			if rej := r.undecided(l, err); rej != nil {
				return rej
			}
			continue
		}
		if d.Rejection != nil {
			return r.refuse(l, d)
		}
		in.push(held{l, d})
		if r.chain.tg.Observe != nil {
			r.report(Event{Kind: Admitted, Policy: l.name, Degraded: d.Degraded}, l)
		}
		if d.Quota.Format != NoHeaders && (tightest.Format == NoHeaders || d.Quota.tighter(tightest)) {
			tightest, name = d.Quota, l.name
		}
	}
	r.show(tightest, name)
	return nil
}

// within returns ctx for a hook of l: with what is left of the budget, if l needs one.
func (r *run) within(ctx context.Context, l *link) context.Context {
	total := r.chain.tg.budget()
	if l.requires&RequireBudget == 0 || total < 0 {
		return ctx
	}
	if r.budget == nil {
		r.budget = &budget{left: total}
	}
	return budgetContext{ctx, r.budget}
}

// show writes the quota headers of an admitted request, unless an outer chain has shown a tighter quota.
func (r *run) show(q Quota, name string) {
	if q.Format == NoHeaders {
		return
	}
	h := r.x.ResponseHeader()
	if n, ok := q.shown(h); ok && n <= q.Remaining {
		return
	}
	q.write(h, name)
}

// refuse completes a copy of the policy's rejection: the policy may share one value among all requests.
func (r *run) refuse(l *link, d Decision) *Rejection {
	rej := *d.Rejection
	rej.Policy, rej.Quota = l.name, d.Quota
	l.said.prepare(&rej)
	rej.setHeader(r.x.ResponseHeader())
	r.report(Event{Kind: Refused, Policy: l.name, Degraded: d.Degraded, Rejection: &rej}, l)
	return &rej
}

// undecided applies the failure mode. It returns nil where the request goes on.
func (r *run) undecided(l *link, err error) *Rejection {
	if ended := r.ctx.Err(); ended != nil {
		// Nobody waits for an answer any more. Letting the handler run would make hanging up a way around
		// the limit, and the store has done nothing wrong.
		code := RequestDeadlinePassed
		if errors.Is(ended, context.Canceled) {
			code = ClientClosedRequest
		}
		return r.refuse(l, Decision{Rejection: &Rejection{Code: code, Cause: err}})
	}
	if l.mode == Open {
		r.report(Event{Kind: Undecided, Policy: l.name, Mode: Open, Degraded: true, Err: err}, l)
		return nil
	}
	rej := &Rejection{Code: GuardUnavailable, Wait: time.Second, Spread: 2 * time.Second, Policy: l.name, Cause: err}
	l.said.prepare(rej)
	rej.setHeader(r.x.ResponseHeader())
	r.report(Event{Kind: Undecided, Policy: l.name, Mode: Closed, Rejection: rej, Err: err}, l)
	return rej
}

func (r *run) report(e Event, l *link) {
	e.Route = r.x.Route()
	r.chain.tg.report(r.ctx, e, l.quiet)
}

// leave runs what is owed when the exchange goes out again, by whatever way.
func (r *run) leave(in *entered) {
	now := r.x.Request()
	defer r.restore(now, r.moved || !r.out.Ran && now != r.req)
	if in.n == 0 {
		return
	}
	if !r.start.IsZero() {
		r.out.Latency = time.Since(r.start)
	}
	if r.out.Panicked {
		r.out.Status, r.out.Err = 0, nil
	}
	r.budget = nil // a dead store of one policy must not cost another one its correction
	r.unwind(in)
}

// restore puts the context back that policies have replaced: before the handler if moved, or in an After, since the request
// was then.
func (r *run) restore(then *http.Request, moved bool) {
	if moved || r.x.Request() != then {
		r.x.SetContext(r.ctx)
	}
}

// unwind calls the After of those in, last first. The recursion in a defer, rather than a loop, is what keeps
// a panicking After from cheating the others, without a recover.
func (r *run) unwind(in *entered) {
	if in.n == 0 {
		return
	}
	last := in.pop()
	defer r.unwind(in)
	l := last.link
	if err := l.policy.After(r.within(r.ctx, l), r.x, last.d, r.out); err != nil {
		r.report(Event{Kind: ReleaseFailed, Policy: l.name, Err: err}, l)
	}
}
