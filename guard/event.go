package guard

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// An EventKind says what an [Event] tells.
type EventKind uint8

// The kinds.
const (
	// Admitted: a policy let the request through.
	Admitted EventKind = iota + 1
	// Refused: a policy refused the request; Rejection says why.
	Refused
	// Undecided: a policy could not decide; Err says why, and Mode what became of the request.
	Undecided
	// ReleaseFailed: After returned an error, Err.
	ReleaseFailed
)

// String returns the kind in words.
func (k EventKind) String() string {
	switch k {
	case Admitted:
		return "admitted"
	case Refused:
		return "refused"
	case Undecided:
		return "undecided"
	case ReleaseFailed:
		return "release failed"
	default:
		return "unknown"
	}
}

// An Event tells the observer of one policy and one request. It names the policy and the route, never the
// subject: both are few, so they can be labels of a metric.
type Event struct {
	Kind   EventKind
	Policy string // the policy's name, or its type where it has none
	Route  Route
	// Degraded is set where the request was not judged as it should have been: a stand-in decided, or
	// nobody could and the request passed.
	Degraded bool
	// Mode is Open or Closed in an Undecided event.
	Mode FailureMode
	// Rejection is set in a Refused event, and in an Undecided one with Mode Closed. It must not be
	// changed.
	Rejection *Rejection
	// Err is set in Undecided and ReleaseFailed events.
	Err error
}

// report hands e to the observer. Without one, failures go to the log: a limit that does not hold must
// not be silent.
func (tg *TrafficGuard) report(ctx context.Context, e Event, quiet *quieter) {
	if tg.Observe != nil {
		tg.Observe(ctx, e)
		return
	}
	if e.Err == nil && e.Rejection != nil && e.Rejection.StatusCode() >= http.StatusInternalServerError {
		e.Err = e.Rejection.Cause // the application's own fault, which no client can mend
	}
	if e.Err == nil {
		return
	}
	if repeated, ok := quiet.pass(time.Now()); ok {
		slog.WarnContext(ctx, "trafficguard: "+e.Kind.String(), "policy", e.Policy, "route", e.Route.String(),
			"mode", e.Mode.String(), "err", e.Err, "repeated", repeated)
	}
}

// A quieter lets one line a second through and counts the rest: a store that is down would otherwise fill
// the log at the rate of the traffic.
type quieter struct {
	next, held atomic.Int64
}

func (q *quieter) pass(now time.Time) (held int64, ok bool) {
	next, ns := q.next.Load(), now.UnixNano()
	if ns < next || !q.next.CompareAndSwap(next, ns+int64(time.Second)) {
		q.held.Add(1)
		return 0, false
	}
	return q.held.Swap(0), true
}
