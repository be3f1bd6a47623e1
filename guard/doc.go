// Package guard holds the rules of TrafficGuard: what a policy is, in which order policies run, what is
// released when, what a client is told. It knows neither a framework nor a store; adapters translate
// between it and a framework, policies decide.
//
// # Guarantees
//
//  1. Policies run in the order in which they are written, the first outermost. The chain never reorders.
//  2. After runs exactly once for every Before that admitted, last first, whatever happened in between:
//     a normal return, an error or a panic of the handler, [runtime.Goexit], a refusal by a later policy,
//     a client that hung up. A panicking After does not keep the others from running.
//  3. The guard never recovers a panic.
//  4. A refused request never reaches the handler, whatever a custom answer does or leaves undone.
//  5. Refused, could not decide, and the handler failed are three things and travel in three channels:
//     [Decision.Rejection], the error of [GuardPolicy.Before], [Outcome.Err].
//  6. A request whose own context has ended while a policy was asking is refused: hanging up is no way
//     around a limit.
//
// # Order
//
// Recommended is: load shedding, concurrency, rate. The cheap and local ones first, what spends a quota
// last. A rate limit that was charged before a later policy of the same chain refused for want of room (429, 503) is
// refunded; one before a policy that refused the request for what it is (400, 401) keeps its charge, and so does one of a
// chain further out.
//
// # Cost
//
// The chain itself allocates nothing for up to eight policies. What costs something is done only for
// policies that ask for it, see [Requirement].
//
// # Non-goals
//
// A policy cannot retry a request, run it later in another goroutine, or change its response once the
// handler has begun it. A policy needs no way to wrap the handler: what a wrapper would do on the way out
// belongs into After.
package guard
