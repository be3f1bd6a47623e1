package policies

import (
	"maps"
	"net/http"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store"
)

// A RateOption is an option of [UserRateLimit]. Later options win over earlier ones, unless they say that they
// add up.
type RateOption interface {
	applyRate(s *rateSettings)
}

// A SharedOption is an option of every policy. [Options] bundles several.
type SharedOption interface {
	RateOption
}

type rateOption func(*rateSettings)

func (o rateOption) applyRate(s *rateSettings) { o(s) }

type bundle []SharedOption

func (b bundle) applyRate(s *rateSettings) {
	for _, o := range b {
		if o != nil {
			o.applyRate(s)
		}
	}
}

// Options bundles options that several policies share, such as the store and the headers. Nil ones are skipped.
func Options(shared ...SharedOption) SharedOption { return bundle(shared) }

// InStore keeps the policy's state in s, for instance in Redis, so that all instances of an app count together.
// Default: an embedded store of the policy's own, which lives and dies with the process.
func InStore(s store.RateStore) SharedOption {
	return rateOption(func(r *rateSettings) { r.Store, r.stored = s, true })
}

// Formats of quota headers, for [Headers].
const (
	NoHeaders        = guard.NoHeaders
	IETF             = guard.IETF
	IETFDraft11      = guard.IETFDraft11
	RateLimitHeaders = guard.RateLimitHeaders
	XRateLimit       = guard.XRateLimit
	XRateLimitEpoch  = guard.XRateLimitEpoch
)

// Headers tells clients about their quota on every response, in the given format. Default: [NoHeaders].
// Retry-After on a refusal does not depend on it.
func Headers(f guard.HeaderFormat) SharedOption {
	return rateOption(func(r *rateSettings) { r.Headers = f })
}

// FailClosed refuses requests (503) while the policy cannot decide, because its store is down, say. Use it where
// a request too many costs more than a request too few: logins, payments. Default: what the TrafficGuard says, which
// is to let them pass.
func FailClosed() SharedOption {
	return rateOption(func(r *rateSettings) { r.FailureMode = guard.Closed })
}

// FailOpen lets requests pass while the policy cannot decide, whatever the TrafficGuard says. Each pass is reported
// in a degraded [guard.Event].
func FailOpen() SharedOption {
	return rateOption(func(r *rateSettings) { r.FailureMode = guard.Open })
}

// Named gives the policy a name: in headers, problem documents, events, and as the key of its budget, which it then
// has once for each subject, wherever it is mounted. It takes 1 to 64 bytes of letters, digits and "._-". Renaming
// a policy starts it afresh.
func Named(name string) RateOption {
	return rateOption(func(r *rateSettings) { r.Name, r.named = name, true })
}

// Else sets another limit, and who it counts, for requests in which the policy's own resolver finds nobody: by
// client IP, say, for those who are not logged in.
func Else(l limit.Limit, subject resolver.Func) RateOption {
	return rateOption(func(r *rateSettings) { r.Else = &elseSettings{Limit: l, Subject: subject} })
}

// Exempt lets requests pass uncounted that satisfy p. Several Exempt options add up: one that is satisfied is enough.
// What p reads must not be the client's to choose.
func Exempt(p resolver.Predicate) RateOption {
	return rateOption(func(r *rateSettings) { r.Exempt = append(r.Exempt, p) })
}

// Cost makes each request cost n tokens. Default: 1. A cost that no limit of the policy could ever admit is a
// configuration fault.
func Cost(n int) RateOption {
	return rateOption(func(r *rateSettings) { r.Cost, r.CostOf, r.costly = n, nil, false })
}

// CostOf makes each request cost what f says. A cost below 1 is answered with 400, one above the limit's burst with
// [guard.CostExceedsLimit]. An error that is a [resolver.Fault] is the client's; any other means that the policy could
// not decide. f must be safe for concurrent use.
func CostOf(f func(x guard.Exchange) (int64, error)) RateOption {
	return rateOption(func(r *rateSettings) { r.Cost, r.CostOf, r.costly = 1, f, true })
}

// ChargeIf keeps a request's charge only if f says so of its outcome, once the handler is done: [Failed] counts only failed
// logins, [Succeeded] only what was really served. What is not known keeps its charge: a panic, a status that cannot be
// told. f must be safe for concurrent use. Until the handler is done the charge stands, so that many attempts at a time
// cannot slip through. Default: every request that reached the handler is charged.
func ChargeIf(f func(o guard.Outcome) bool) RateOption {
	return rateOption(func(r *rateSettings) { r.ChargeIf, r.conditional = f, true })
}

// Failed reports whether the response has a status of 400 or more. It is for [ChargeIf].
func Failed(o guard.Outcome) bool { return o.Status >= http.StatusBadRequest }

// Succeeded reports whether the response has a status below 400. It is for [ChargeIf].
func Succeeded(o guard.Outcome) bool { return !Failed(o) }

// Settled lets handlers correct the cost of their request, with [RateLimit.Settle]: tokens of a language model, bytes, rows.
// [Cost] or [CostOf] is what is reserved until then. It costs three allocations a request, and when the
// request leaves the guard, the context is again the one from before.
func Settled() RateOption {
	return rateOption(func(r *rateSettings) { r.Settled = true })
}

// Plans gives subjects different limits by what plan names: "free", "pro". Whoever has no plan, or one that is not
// in limits, gets the policy's own limit. The plan is not part of the budget's key: who changes plan keeps what is
// owed, as the time that it takes to pay it off; [RateLimit.Reset] forgives it, after an upgrade for instance. The plan must
// come from what the application knows, never from the client.
func Plans(plan resolver.Func, limits map[string]limit.Limit) RateOption {
	limits = maps.Clone(limits)
	return rateOption(func(r *rateSettings) { r.Plans = &planSettings{Plan: plan, Limits: limits} })
}

// AdmitUnidentified lets requests pass uncounted in which nobody was found, by the policy's resolver nor by [Else].
// Default: 401 with the code client_unidentified.
func AdmitUnidentified() RateOption {
	return rateOption(func(r *rateSettings) { r.AdmitUnidentified = true })
}

// Challenge sets the WWW-Authenticate header of the 401 that answers a request in which nobody was found. Default:
// "Bearer".
func Challenge(challenge string) RateOption {
	return rateOption(func(r *rateSettings) { r.Challenge = challenge })
}
