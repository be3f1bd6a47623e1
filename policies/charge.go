package policies

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// ErrNotGuarded is returned by [RateLimit.Settle] for a context that is of no request guarded by the policy with [Settled].
var ErrNotGuarded = errors.New("policies: the context is of no request that this policy guards with Settled")

// A charge is what After must know of an admitted request.
type charge struct {
	receipt store.Receipt
	bill    *bill // nil without Settled
}

// A bill is where the handler writes what its request really cost. It may be written to by a goroutine that outlives the
// request, so it is never used again.
type bill struct {
	actual atomic.Int64 // one more than the cost, 0 while it is not known
}

// billKey is the key of a policy's bill in a context.
type billKey struct{ policy *RateLimit }

// charge returns what After needs.
func (p *RateLimit) charge(r store.Receipt, b *bill) *charge {
	c, ok := p.charges.Get().(*charge)
	if !ok {
		c = new(charge)
	}
	c.receipt, c.bill = r, b
	return c
}

// bill puts a bill where the handler finds it.
func (p *RateLimit) bill(x guard.Exchange) *bill {
	b := new(bill)
	x.SetContext(context.WithValue(x.Request().Context(), billKey{p}, b))
	return b
}

// Settle says what the request whose context is ctx has really cost, at least 0. The handler calls it, before it returns;
// of several calls the last one counts. The budget is corrected once the handler is done, up or down, past the limit if
// need be: that debt is waited for. If the correction gets lost on its way to the store, what was reserved stays charged.
//
// Where the policy let the request pass uncounted it does nothing. It returns [ErrNotGuarded] for a context of any other
// origin, and [limit.ErrCost] for a negative cost.
func (p *RateLimit) Settle(ctx context.Context, actual int64) error {
	if actual < 0 || actual+1 < 0 {
		return limit.ErrCost
	}
	b, ok := ctx.Value(billKey{p}).(*bill)
	if !ok {
		return ErrNotGuarded
	}
	b.actual.Store(actual + 1)
	return nil
}

// After corrects the charge, if there is anything to correct: to what the handler said, else to nothing where a later
// policy of the chain had no room for the request, or where [ChargeIf] says no.
func (p *RateLimit) After(ctx context.Context, _ guard.Exchange, d guard.Decision, o guard.Outcome) error {
	c, ok := d.State.(*charge)
	if !ok { // let pass uncounted
		return nil
	}
	receipt, bill := c.receipt, c.bill
	*c = charge{}
	p.charges.Put(c)
	if bill != nil {
		if actual := bill.actual.Load(); actual > 0 {
			return p.correct(ctx, receipt, actual-1)
		}
	}
	if refundable(o.Refused) || p.forgiven(o) {
		return p.correct(ctx, receipt, 0)
	}
	return nil
}

// correct settles within the chain's budget, whether or not the client is still there.
func (p *RateLimit) correct(ctx context.Context, r store.Receipt, actual int64) error {
	ctx, done := guard.WithinBudget(context.WithoutCancel(ctx))
	defer done()
	return p.store.Settle(ctx, r, actual)
}

// refundable reports whether r turned a request away for want of room (429, 503). Who is refused for what the request is,
// such as a wrong password, or hangs up, keeps the charge: a limit before a check would otherwise limit no guessing.
func refundable(r *guard.Rejection) bool {
	if r == nil || r.Code == guard.RequestDeadlinePassed {
		return false
	}
	status := r.StatusCode()
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// forgiven reports whether the outcome is known and not one that is charged.
func (p *RateLimit) forgiven(o guard.Outcome) bool {
	return p.chargeIf != nil && o.Ran && o.Status != 0 && !p.chargeIf(o)
}
