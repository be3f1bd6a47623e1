package policies

import (
	"context"

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

// Peek says what would become of a request of the policy's fixed cost now, and counts nothing.
func (p *RateLimit) Peek(ctx context.Context, t Target) (limit.Verdict, error) {
	rule := p.rule
	if r, ok := p.plans[t.Plan]; ok {
		rule = r
	}
	if t.Else && p.elseRule != nil {
		rule = p.elseRule
	}
	return p.store.Peek(ctx, store.Request{Key: p.key(t.Subject, t.Route), Rule: rule, Cost: p.cost})
}

// Reset gives the target its whole limit back.
func (p *RateLimit) Reset(ctx context.Context, t Target) error {
	return p.store.Reset(ctx, p.key(t.Subject, t.Route))
}
