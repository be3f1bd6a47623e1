package guard

import (
	"context"
	"net/http"
	"time"
)

// A GuardPolicy admits or refuses the requests of a route.
//
// For each request the chain calls Supports once. If it reports false the policy takes no further part.
// Otherwise the chain calls Before. If Before admits, the chain calls After exactly once with the same
// [Decision], in reverse order of the chain, whether the handler returned, panicked, or was never reached
// because a later policy refused. If Before refuses or fails, After is not called for that policy.
//
// A policy is shared by every route and every app that it is given to: all methods must be safe for
// concurrent use and must not keep the Exchange after they return.
//
// Embed [Base] to write only the hooks that you need and to be safe against later additions. What else a policy may
// say of itself is in [Named], [Failing] and [Requiring].
type GuardPolicy interface {
	// Supports reports whether the policy applies. It must be cheap: no I/O, no side effects.
	Supports(x Exchange) bool

	// Before decides. An error means that the policy could not decide (a store is down, say); it is not a
	// refusal. What happens then is the failure mode's business: see [FailureMode] and [FailClosed].
	// The Decision that comes with an error is ignored.
	Before(ctx context.Context, x Exchange) (Decision, error)

	// After releases what Before took. ctx may already be done (the client hung up): what must be
	// released must not depend on it. An error is reported to [TrafficGuard.Observe] and changes nothing
	// for the client.
	After(ctx context.Context, x Exchange, d Decision, o Outcome) error
}

// Base supplies the hooks that a policy does not need: Supports says yes, Before admits, After does
// nothing. Embed it.
type Base struct{}

// Supports reports true.
func (Base) Supports(Exchange) bool { return true }

// Before admits.
func (Base) Before(context.Context, Exchange) (Decision, error) { return Decision{}, nil }

// After does nothing.
func (Base) After(context.Context, Exchange, Decision, Outcome) error { return nil }

// An Exchange is one HTTP exchange as a policy sees it. Adapters implement it. It is valid only while the
// hook that received it runs, and is not safe for concurrent use.
type Exchange interface {
	// Request returns the request as the handler will see it. A policy may wrap its Body (and must then
	// let every byte through) but must not change anything else in it.
	Request() *http.Request
	// ResponseHeader returns the headers of the response, which is not yet sent while Before runs.
	ResponseHeader() http.Header
	// Route returns the route that matched.
	Route() Route
	// PathParam returns a parameter of the route's pattern, "" if there is none of that name.
	PathParam(name string) string
	// Value returns what was stored under key on the framework's context, by an authenticating
	// middleware for instance; nil if nothing was.
	Value(key string) any
	// SetContext sets the context that later policies and the handler see. When the exchange leaves the
	// chain, the chain restores the one that was there before.
	SetContext(ctx context.Context)
}

// A Route names a route by what the application registered, never by what the client sent: the method
// and the pattern. Pattern is "" where none matched. Method is "*" where the route takes any.
type Route struct {
	Method  string
	Pattern string
}

// String returns "GET /posts/:id".
func (r Route) String() string {
	if r.Pattern == "" {
		return r.Method + " (no route)"
	}
	return r.Method + " " + r.Pattern
}

// A Decision is what Before says. The zero Decision admits.
type Decision struct {
	// Rejection refuses, if it is not nil. One value may be shared by many requests: the chain works on a
	// copy.
	Rejection *Rejection
	// Quota is what may be told to the client in response headers. The zero value shows nothing.
	Quota Quota
	// State is handed back to After. Store a pointer: other values are allocated anew for each request.
	State any
	// Degraded says that the decision came from a stand-in: a fallback store, for instance.
	Degraded bool
}

// An Outcome says what became of an admitted request.
type Outcome struct {
	// Ran is whether the handler was called. It is false where a later policy refused, of this chain or of one
	// further in.
	Ran bool
	// Refused is the rejection of a later policy of the same chain, nil if there was none. It must not be changed.
	Refused *Rejection
	// Status is the response's status, 0 where it is unknown: the handler did not run or panicked, or the
	// adapter can learn it only by wrapping the writer and no policy asked for that: see [RequireStatus].
	Status int
	// Err is what the handler returned (Echo) or recorded last (Gin).
	Err error
	// Panicked is whether the handler panicked or called [runtime.Goexit].
	Panicked bool
	// Latency is the time that the handler took. It is 0 where no policy of the chain asked for it: see
	// [RequireLatency].
	Latency time.Duration
}

// A Requirement is something that costs time or memory on each request and is therefore done only for
// policies that ask for it, see [Requiring]. Combine them with |.
type Requirement uint8

// What a policy can ask for.
const (
	// RequireStatus has [Outcome.Status] filled in even where the writer must be wrapped for it (net/http;
	// Gin and Echo know it anyway).
	RequireStatus Requirement = 1 << iota
	// RequireLatency has [Outcome.Latency] filled in, at the price of two clock readings.
	RequireLatency
	// RequireBudget is for a Before that waits for another machine. [WithinBudget] makes of the context that
	// it receives one that ends when [TrafficGuard.Budget] is spent.
	RequireBudget
)

// A FailureMode says what becomes of a request when a policy could not decide. It belongs to the policy
// that failed: the policies after it are asked as usual.
type FailureMode uint8

const (
	// Inherit leaves the choice to [TrafficGuard.FailureMode], and is [Open] there.
	Inherit FailureMode = iota
	// Open lets the request pass as though the policy had not been there. Each such pass is reported with
	// Degraded set in its [Event].
	Open
	// Closed refuses the request with 503 and the code [GuardUnavailable].
	Closed
)

// String returns "inherit", "open" or "closed".
func (m FailureMode) String() string {
	switch m {
	case Open:
		return "open"
	case Closed:
		return "closed"
	default:
		return "inherit"
	}
}
