package policies

import (
	"context"
	"errors"
	"fmt"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store"
)

// A Target says whose budget an operator means.
type Target struct {
	// Subject is who is counted, as the policy's resolver finds it: the kind and the value.
	Subject resolver.Subject
	// Else means the limit of the [Else] option instead of the policy's own.
	Else bool
	// Plan is the plan that the subject is on, "" for the policy's own limit.
	Plan string
	// Route is the route that is meant, for a policy without a name. It is ignored for one with a name.
	Route guard.Route
}

// ErrTarget is what is wrong with a [Target] that cannot be anybody's budget.
var ErrTarget = errors.New("policies: no such target")

// Peek says what would become of a request of the policy's fixed cost now, and counts nothing. It returns [ErrTarget] for
// a target without a subject, or with a plan or an Else that the policy does not have.
func (p *RateLimit) Peek(ctx context.Context, t Target) (limit.Verdict, error) {
	rule, err := p.ruleOf(t)
	if err != nil {
		return limit.Verdict{}, err
	}
	return p.store.Peek(ctx, store.Request{Key: p.key(t.Subject, t.Route, rule), Rule: rule, Cost: p.cost})
}

// Reset gives the target its whole limit back. Its errors are those of [RateLimit.Peek].
func (p *RateLimit) Reset(ctx context.Context, t Target) error {
	rule, err := p.ruleOf(t)
	if err != nil {
		return err
	}
	return p.store.Reset(ctx, p.key(t.Subject, t.Route, rule))
}

// An Explanation says what would become of a request.
type Explanation struct {
	// Counted is whether the request would be charged at all. Where it is not, because it is exempt or in nobody's name
	// and let pass, only Code is set, to "".
	Counted bool
	// Subject is who would be charged.
	Subject resolver.Subject
	// Limit is the limit that holds for the subject: the policy's own, a plan's, or that of Else.
	Limit limit.Limit
	// Cost is what the request would cost.
	Cost int64
	// Verdict is what the store would say.
	Verdict limit.Verdict
	// Code is that of the rejection, "" if the request would be admitted.
	Code guard.Code
}

// Explain says what would become of the request of x now, and counts nothing. It is for a policy of the
// application's own that tells users, or support, which limit holds for them. An error means that the policy could not decide.
func (p *RateLimit) Explain(ctx context.Context, x guard.Exchange) (Explanation, error) {
	c, err := p.count(x)
	if err != nil {
		d, err := faulty(err)
		if err != nil {
			return Explanation{}, err
		}
		return Explanation{Code: d.Rejection.Code}, nil
	}
	if c.pass || c.rule == nil {
		return Explanation{Code: p.codeFor(c)}, nil
	}
	e := Explanation{Counted: true, Subject: c.who, Limit: c.rule.Limit(), Cost: c.cost}
	e.Verdict, err = p.store.Peek(ctx, store.Request{Key: p.key(c.who, x.Route(), c.rule), Rule: c.rule, Cost: c.cost})
	if err == nil && !e.Verdict.OK {
		e.Code = refusal(e.Verdict).Code
	}
	return e, err
}

// codeFor returns what a request gets that is not counted.
func (p *RateLimit) codeFor(c counted) guard.Code {
	if c.pass || p.nobody == nil {
		return ""
	}
	return p.nobody.Code
}

// ruleOf returns the limit under which the target stands.
func (p *RateLimit) ruleOf(t Target) (*limit.Rule, error) {
	switch {
	case t.Subject.Kind == "":
		return nil, fmt.Errorf("%w: the subject has no kind", ErrTarget)
	case t.Else && p.elseRule == nil:
		return nil, fmt.Errorf("%w: the policy has no Else", ErrTarget)
	case t.Else:
		return p.elseRule, nil
	case t.Plan == "":
		return p.rule, nil
	}
	if rule, ok := p.plans[t.Plan]; ok {
		return rule, nil
	}
	return nil, fmt.Errorf("%w: the policy has no plan %q", ErrTarget, t.Plan)
}
