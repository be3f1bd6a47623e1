// Package store holds the contracts between policies and the places where their state is kept. Stores decide:
// there is no Get and no Set, so that no policy can read, think, and write too late.
//
// The implementations live below: memory (the embedded default), redisstore. What every store must do is
// written here and made executable in storetest.
package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/trafficguard-go/trafficguard/limit"
)

// What can go wrong with a store, to be asked with [errors.Is]. A store's own error is wrapped beside it.
var (
	// ErrUnavailable: the store is down, too slow, or cut off. It will mend itself; the failure mode answers
	// meanwhile. Whether a request was charged is unknown.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrSaturated: this process has more requests waiting for the store than it can ask in time, while the store
	// answers. Nothing was charged. Such a request is refused whatever the failure mode: letting it pass would let a
	// flood switch the limit off.
	ErrSaturated = errors.New("store: saturated")
	// ErrMisconfigured: the store refuses for a reason that will not pass by itself, such as a wrong password.
	// Somebody must mend it.
	ErrMisconfigured = errors.New("store: misconfigured")
)

// A Key says what is counted. Its parts stay apart, so that no two different keys can meet: stores join them
// without ambiguity, bound their length, and let no text of a client's reach another subject's state.
type Key struct {
	// Policy is the name of the policy, "" for one without a name, which counts each route for itself.
	Policy string
	// Method and Pattern are the route, for a policy without a name.
	Method, Pattern string
	// Shape tells apart what would otherwise share a state: policies without a name on one route, and algorithms
	// whose states differ. It comes from the program, never from a client.
	Shape string
	// Kind says where the subject was found, such as "header:X-User-Id"; it comes from the program.
	Kind string
	// Subject is who is counted. It comes from the client: any bytes, any length.
	Subject string
}

// A Request asks to charge Cost against Rule on behalf of Key.
type Request struct {
	Key  Key
	Rule *limit.Rule
	// Cost is at least 1.
	Cost int64
}

var errNoRule = fmt.Errorf("%w: the request has no rule", ErrMisconfigured)

// Check returns what is wrong with r, whatever the store holds: an [ErrMisconfigured] where it has no Rule, which is a mistake
// of the program, and [limit.ErrCost] for a Cost below 1. Stores call it before they decide.
func (r *Request) Check() error {
	switch {
	case r.Rule == nil:
		return errNoRule
	case r.Cost < 1:
		return limit.ErrCost
	default:
		return nil
	}
}

// A Grant is a store's answer.
type Grant struct {
	limit.Verdict
	// At is the state that the charge left. It is meaningful only if OK.
	At limit.State
	// Via is the store's own note on where it made the charge; 0 is the subject's own state. The bit 0x80 belongs to
	// decorators such as package resilient.
	Via uint8
	// Degraded says that a stand-in answered for the store.
	Degraded bool
	// Rule is what the store decided by in place of the request's rule, nil if it was that.
	Rule *limit.Rule
}

// Receipt returns the receipt for what g granted to r, for [RateStore.Settle]. It is meaningful only if g is OK.
func (g Grant) Receipt(r Request) Receipt {
	if g.Rule != nil {
		r.Rule = g.Rule
	}
	return Receipt{Request: r, At: g.At, Via: g.Via}
}

// A Receipt names one charge, so that exactly that one can be corrected later. It is a value.
type Receipt struct {
	Request
	// At and Via are those of the [Grant].
	At  limit.State
	Via uint8
}

// Check returns what is wrong with settling r to actual: what [Request.Check] says, and [limit.ErrCost] where actual is
// below 0 or no grant can have charged what r says. Stores call it before they settle.
func (r *Receipt) Check(actual int64) error {
	if err := r.Request.Check(); err != nil {
		return err
	}
	if actual < 0 || r.Cost > r.Rule.Burst() {
		return limit.ErrCost
	}
	return nil
}

// A RateStore keeps what subjects have used of their limits. Every method is one atomic step: of concurrent
// requests exactly as many are admitted as the limit allows. All must be safe for concurrent use.
//
// A store returns [limit.ErrCost] for a cost that is out of range, and otherwise errors that are
// [ErrUnavailable], [ErrSaturated] or [ErrMisconfigured]; if ctx ended first, its error is wrapped as well. It sends nothing twice:
// a charge whose answer was lost was made once or not at all.
type RateStore interface {
	// Take charges the cost if the limit allows it. A refusal changes nothing.
	Take(ctx context.Context, r Request) (Grant, error)
	// Peek says what Take would say, and changes nothing.
	Peek(ctx context.Context, r Request) (limit.Verdict, error)
	// Reset forgets the key: its subject has its whole limit again.
	Reset(ctx context.Context, k Key) error
	// Settle corrects the charge of r to actual, which is at least 0, as [limit.Rule.Settle] defines it. It is not cut
	// short by ctx being cancelled, since that is when it is often called; it keeps to ctx's deadline and to the store's
	// own. Call it at most once for a receipt: it is not idempotent, and a correction that fails is lost, not repeated.
	Settle(ctx context.Context, r Receipt, actual int64) error
}

// Local is what a store says of itself, by having the method, when it answers from the memory of this process:
// asking it then takes no part in the time that a request may spend on other machines.
type Local interface {
	Local() bool
}

// IsLocal reports whether s says that it is [Local].
func IsLocal(s RateStore) bool {
	l, ok := s.(Local)
	return ok && l.Local()
}
