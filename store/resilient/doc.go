// Package resilient makes a store that lives on another machine survivable: it bounds every call, stops asking a
// store that does not answer, and has a second store answer meanwhile.
//
//	redis, err := redisstore.Open("redis://localhost:6379/0", "shop")
//	...
//	limits := resilient.New(redis, resilient.Fallback(memory.New(), 3)) // this program runs 3 times
//
// Use it where an outage of the shared store must neither slow requests down nor lift their limits. A limit that must
// not be exceeded at any price is better served without a fallback: then the error reaches the policy, whose failure
// mode decides. A store in memory needs none of this.
//
// # What it does
//
// A call of the primary has a deadline, 50 ms unless [Timeout] says otherwise, and the caller's where that is earlier. After 5
// failures in a row, over a fifth of a second at least, the circuit opens: the primary is not asked for a second, and then by one
// call at a time until it answers. So a dead primary costs the requests of the first moments their deadline, then one a
// second, and all others nothing.
//
// A failure is an error that is [store.ErrUnavailable], or an answer that came after the deadline. Refusals are answers. A
// caller who left, or allowed less than 5 ms, has shown nothing about the primary. Where the primary has a circuit breaker
// made by gobreaker, as redisstore has for each server, its refusals to ask are failures only if no call was answered within the
// last second: a Cluster of which one node is dead still serves the subjects of the others.
//
// While the primary gives no answer, the fallback decides, with this instance's share of the limit: quota and burst
// divided by the number of instances, rounded down, and at least 1. A request that costs more than the share of the burst but not
// more than the burst still passes in time: from then on that limit's share has a burst of what it cost. Such a [store.Grant] is
// Degraded, names the share's rule, and has the bit 0x80 in Via; with it [Store.Settle] finds the store that made the charge, and
// corrects that one only.
//
// [store.ErrMisconfigured] is not an outage. It is returned, never answered by the fallback, and does not open the circuit: a
// wrong password must not go unnoticed because something else stands in. [store.ErrSaturated] does not open the circuit either, as
// the primary is well, but the fallback decides: so a flood does not lock other subjects out, and what it can gain for its own
// is their shares. Without a fallback it is returned.
//
// # What it means for limits
//
// While the fallback decides, all instances together admit a limit's quota and burst, if the load is spread evenly and nothing
// is rounded; where rounding down would leave less than 1, each instance admits 1. A subject all of whose requests go to one
// instance has a share of its limit. The fallback starts from what it knows, which is nothing in the first outage: what a
// subject had spent at the primary is not seen, so it can have its share of the burst on top.
//
// As soon as the circuit closes the primary decides again. Nothing that was charged meanwhile is carried over or taken back: the
// primary's bucket has refilled for as long as it was not charged. Around an outage, a subject can so have one limit from
// the primary before, one from all shares together, and one from the primary after it.
//
// Nothing is sent twice: a request whose answer is lost may have been charged by the primary, once, and is charged by the
// fallback as well.
//
// # What it costs
//
// It has no goroutine and keeps no timer. On a machine of 2 cores, a decision of a healthy primary takes 0.3 µs longer where the
// caller's context ends before the deadline anyway, and 0.7 µs and 4 or 5 allocations longer where a deadline must be set, beside
// the 30 to 60 µs of Redis over loopback. One of the fallback in memory takes 0.2 µs altogether, and allocates nothing.
package resilient
