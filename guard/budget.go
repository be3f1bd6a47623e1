package guard

import (
	"context"
	"time"
)

// WithinBudget returns a context that ends when the request's policies have spent [TrafficGuard.Budget] on asking other
// machines, or with ctx. A policy that requires a budget ([RequireBudget]) calls it with the context of its hook right
// before it asks, and done right after the answer: only the time in between is spent. What the policy does otherwise, such
// as reading a body that the client sends slowly, must not use up what its limit, or a later one, needs to be decided.
//
// Where ctx is of no such hook, or there is no budget, it returns ctx and a done that does nothing. Call it from the
// goroutine that runs the hook, one call at a time.
func WithinBudget(ctx context.Context) (_ context.Context, done func()) {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if !ok {
		return ctx, func() {}
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.left)
	return ctx, func() {
		cancel()
		b.left -= time.Since(start)
	}
}

type budgetKey struct{}

// A budget is what the policies of one request may still spend.
type budget struct{ left time.Duration }

// A budgetContext carries a budget to [WithinBudget].
type budgetContext struct {
	context.Context
	budget *budget
}

func (c budgetContext) Value(key any) any {
	if key == (budgetKey{}) {
		return c.budget
	}
	return c.Context.Value(key)
}
