package guard

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// A Code says why a request was refused, in a word that stays the same from release to release and that
// client programs may switch on. Policies may have codes of their own; they set [Rejection.Status] then.
type Code string

// The codes of this module, with the status that each has where the rejection names none.
const (
	RateLimitExceeded     Code = "rate_limit_exceeded"     // 429: too many requests over time
	ConcurrencyLimitHit   Code = "concurrency_limit_hit"   // 429: too many at a time for one subject; 503 where the limit is the server's
	Overloaded            Code = "overloaded"              // 503: the server itself is short of air
	ClientUnidentified    Code = "client_unidentified"     // 401: nothing in the request says who is calling
	InvalidRequest        Code = "invalid_request"         // 400, or 413 and 415: what says who is calling is malformed or ambiguous
	CostExceedsLimit      Code = "cost_exceeds_limit"      // 429 without Retry-After: waiting cannot help
	GuardUnavailable      Code = "guard_unavailable"       // 503: a policy could not decide and fails closed
	ClientClosedRequest   Code = "client_closed_request"   // 499: the client hung up while a policy was asking
	RequestDeadlinePassed Code = "request_deadline_passed" // 503: the request's own deadline passed while a policy was asking
)

// status returns the status and the title that belong to the code.
func (c Code) status() (int, string) {
	switch c {
	case RateLimitExceeded:
		return http.StatusTooManyRequests, "Too many requests"
	case ConcurrencyLimitHit:
		return http.StatusTooManyRequests, "Too many requests at a time"
	case CostExceedsLimit:
		return http.StatusTooManyRequests, "The request costs more than the limit allows"
	case Overloaded:
		return http.StatusServiceUnavailable, "The server is overloaded"
	case ClientUnidentified:
		return http.StatusUnauthorized, "The client could not be identified"
	case InvalidRequest:
		return http.StatusBadRequest, "The request is invalid"
	case GuardUnavailable, RequestDeadlinePassed:
		return http.StatusServiceUnavailable, "The service is temporarily unavailable"
	case ClientClosedRequest:
		return statusClientClosedRequest, "The client closed the request"
	default:
		return http.StatusForbidden, "The request was refused"
	}
}

// statusClientClosedRequest is nginx's number for it. The client is gone: it is for logs only.
const statusClientClosedRequest = 499

// Never is a [Rejection.Wait] that says that waiting cannot help.
const Never time.Duration = -1

// A Rejection says why a request did not reach its handler, and what the client is told. It is an error.
// The zero value refuses with 403.
type Rejection struct {
	// Code says why, to the client too.
	Code Code
	// Status is the response's status; 0 means the one that belongs to Code, 403 for a code that is not
	// of this module.
	Status int
	// Title is one sentence for people, the same for every rejection of its code; "" means the code's own.
	Title string
	// Detail is a sentence for the client's developer; "" means none. It must say nothing internal and
	// repeat nothing that the client sent.
	Detail string
	// Wait is the time after which the same request can pass. [Never] where waiting cannot help; 0 where
	// it is unknown. Every 429 and 503 carries a Retry-After of at least one second unless Wait is Never.
	Wait time.Duration
	// Spread is the span over which clients are asked to come back, so that they do not do it all at
	// once: a random part of it is added to Wait in each answer.
	Spread time.Duration
	// Challenge is the WWW-Authenticate header of a 401; "" means none.
	Challenge string
	// Policy is the name of the policy that refused. The chain fills it in.
	Policy string
	// Quota is what the client is told in quota headers. The chain takes it from the Decision.
	Quota Quota
	// Cause is for logs and programs on this side; no client ever sees it.
	Cause error

	prepared *document
}

// Error returns the code, the policy and the cause. It is meant for logs, not for clients.
func (r *Rejection) Error() string {
	s := "refused: " + string(r.Code)
	if r.Policy != "" {
		s += " by policy " + strconv.Quote(r.Policy)
	}
	if r.Cause != nil {
		s += ": " + r.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (r *Rejection) Unwrap() error { return r.Cause }

// StatusCode returns the response's status. Echo v5 renders any error that has this method.
func (r *Rejection) StatusCode() int {
	if r.Status != 0 {
		return r.Status
	}
	status, _ := r.Code.status()
	return status
}

// retryAfter returns the whole seconds of Retry-After, and whether there is such a header.
func (r *Rejection) retryAfter() (int64, bool) {
	status := r.StatusCode()
	wanted := r.Wait > 0 || status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if r.Wait < 0 || !wanted {
		return 0, false
	}
	wait := r.Wait
	if r.Spread > 0 {
		wait += rand.N(r.Spread) //nolint:gosec // spreading clients out needs no secret
	}
	return max(1, seconds(wait)), true
}

// seconds rounds up: a client that waits the number of seconds it is told has waited long enough.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// setHeader writes all headers of the refusal. It replaces only headers that are the refusal's own.
func (r *Rejection) setHeader(h http.Header) {
	after, ok := r.retryAfter()
	v := []string{"no-store", r.Challenge, ""}
	h["Cache-Control"] = v[0:1:1]
	if r.Challenge != "" {
		h["Www-Authenticate"] = v[1:2:2]
	}
	if ok {
		v[2] = strconv.FormatInt(after, 10)
		h["Retry-After"] = v[2:3:3]
	}
	if r.Quota.Format != NoHeaders {
		q := r.Quota
		if ok { // else waiting is not what helps: the quota is what it is
			q.Remaining, q.Reset = 0, time.Duration(after)*time.Second
		}
		q.write(h, r.Policy)
	}
}
