package resilient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/trafficguard-go/trafficguard/store"
)

// A Circuit says who is asked.
type Circuit uint8

const (
	// Closed says that the primary is asked.
	Closed Circuit = iota
	// Open says that the primary is not asked.
	Open
	// HalfOpen says that one call at a time is to find out whether the primary answers again.
	HalfOpen
)

// String returns "closed", "open" or "half-open".
func (c Circuit) String() string {
	switch c {
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	default:
		return "closed"
	}
}

// A Condition says how the primary is.
type Condition uint32

const (
	// Serving says that it answers, or has not failed often enough to say otherwise.
	Serving Condition = iota
	// Down says that the circuit opened, and that the last call before had failed without waiting, with a refused connection, say.
	Down
	// Slow says that the circuit opened, and that the last call before had found no answer in time.
	Slow
	// Misconfigured says that it refuses for a reason that will not pass by itself. It is over when it answers and has not refused so
	// for 10 seconds: a wrong permission may show in some requests only.
	Misconfigured
)

// calm is how long a misconfiguration must not have shown to be over.
const calm = 10 * time.Second

// String returns "serving", "down", "slow" or "misconfigured".
func (c Condition) String() string {
	switch c {
	case Down:
		return "down"
	case Slow:
		return "slow"
	case Misconfigured:
		return "misconfigured"
	default:
		return "serving"
	}
}

// A State is how the primary is, at one moment.
type State struct {
	Circuit   Circuit
	Condition Condition
	// Since is when the Condition began.
	Since time.Time
	// Err is the last failure of the primary, nil if there was none yet, and At its time. They stay when the primary answers again.
	Err error
	At  time.Time
	// Degraded is how many decisions the fallback has made since the store was made.
	Degraded uint64
}

// A Change is a new [Condition] of the primary.
type Change struct {
	From, To Condition
	At       time.Time
	// Err is the failure that made it, nil if To is Serving.
	Err error
	// Lasted is how long From did, Failures how many calls of the primary failed in that time, and Degraded how many decisions
	// the fallback made.
	Lasted             time.Duration
	Failures, Degraded uint64
}

// State returns how the primary is. It asks nobody.
func (s *Store) State() State {
	circuit := Closed
	switch s.circuit.State() {
	case gobreaker.StateOpen:
		circuit = Open
	case gobreaker.StateHalfOpen:
		circuit = HalfOpen
	}
	h := s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	return State{
		Circuit: circuit, Condition: h.condition(), Since: h.since, Err: h.err, At: h.at, Degraded: h.degraded.Load(),
	}
}

// An outage is the error of a call while the circuit is open.
type outage struct{ since error }

func (o *outage) Error() string {
	return fmt.Sprintf("%v: resilient: the circuit is open since: %v", store.ErrUnavailable, o.since)
}

// Unwrap does not return the failure that opened the circuit: a deadline that it ran into was not this call's.
func (o *outage) Unwrap() error { return store.ErrUnavailable }

var errLate = errors.New("the answer came after the deadline")

// kindOf says of a failure whether it came of waiting.
func kindOf(err error, late bool) Condition {
	if late || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return Slow
	}
	return Down
}

// health keeps the condition of the primary, and tells of changes.
type health struct {
	logger   *slog.Logger
	onChange func(Change)
	outage   atomic.Pointer[outage]
	degraded atomic.Uint64
	current  atomic.Uint32 // a Condition; written under mu
	start    time.Time
	last     atomic.Int64 // when the primary last answered well, since start; 0: never

	mu       sync.Mutex
	since    time.Time
	err      error     // of the last failure
	at       time.Time // of the last failure
	kind     Condition // of the last failure that was no misconfiguration
	refused  time.Time // when a misconfiguration last showed
	failures uint64    // since the last change
	before   uint64    // degraded at the last change
	news     []Change

	pending atomic.Bool // there is news
	telling sync.Mutex
}

func newHealth(s *settings) *health {
	now := time.Now()
	h := &health{logger: s.logger, onChange: s.onChange, start: now, since: now, kind: Down}
	h.outage.Store(new(outage))
	return h
}

func (h *health) condition() Condition { return Condition(h.current.Load()) }

// answered notes an answer that says nothing against the primary.
func (h *health) answered(now time.Time) {
	h.last.Store(max(1, int64(now.Sub(h.start))))
	if h.condition() != Misconfigured {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.condition() == Misconfigured && now.Sub(h.refused) >= calm {
		h.change(Serving, now)
	}
}

// answeredWithin reports whether there was such an answer within the last d.
func (h *health) answeredWithin(d time.Duration) bool {
	last := h.last.Load()
	return last > 0 && time.Since(h.start)-time.Duration(last) < d
}

// failed notes a failure that the circuit will be told of.
func (h *health) failed(kind Condition, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kind = kind
	h.note(err)
}

// kept notes a call that the primary's own circuit breaker kept from it. Why is what the failures before have shown.
func (h *health) kept(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		err = h.err
	}
	h.note(err)
}

func (h *health) misconfigured(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.condition() != Misconfigured {
		h.err = err
		h.change(Misconfigured, time.Now())
	}
	h.note(err)
	h.refused = h.at
}

// note is locked.
func (h *health) note(err error) {
	h.err, h.at = err, time.Now()
	h.failures++
}

// switched hears from the circuit, which holds its lock. Nothing that it does may ask the circuit.
func (h *health) switched(from, to gobreaker.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.condition() == Down || h.condition() == Slow
	switch {
	case to == gobreaker.StateOpen:
		h.outage.Store(&outage{since: h.err})
		if !out {
			h.change(h.kind, time.Now())
		}
	case to == gobreaker.StateClosed && from != to && out:
		h.change(Serving, time.Now())
	}
}

// change is locked.
func (h *health) change(to Condition, now time.Time) {
	degraded := h.degraded.Load()
	c := Change{
		From: h.condition(), To: to, At: now, Lasted: now.Sub(h.since), Failures: h.failures, Degraded: degraded - h.before,
	}
	if to != Serving {
		c.Err = h.err
	}
	h.current.Store(uint32(to))
	h.since, h.failures, h.before = now, 0, degraded
	h.news = append(h.news, c)
	h.pending.Store(true)
}

// tell passes the news on, without a lock that a call could wait for. Whoever finds it being told leaves his to the teller.
func (h *health) tell() {
	for h.pending.Load() && h.telling.TryLock() {
		h.tellLocked()
	}
}

func (h *health) tellLocked() {
	defer h.telling.Unlock()
	h.mu.Lock()
	news := h.news
	h.news = nil
	h.pending.Store(false)
	h.mu.Unlock()
	for _, c := range news {
		h.log(c)
		h.onChange(c)
	}
}

func (h *health) log(c Change) {
	from := slog.Group("before", "condition", c.From.String(), "lasted", c.Lasted, "failures", c.Failures, "degraded", c.Degraded)
	switch c.To {
	case Serving:
		h.logger.Info("resilient: the store answers again", from)
	case Misconfigured:
		h.logger.Error("resilient: the store is misconfigured: limits are not enforced", "error", c.Err, from)
	default:
		h.logger.Warn("resilient: the store does not answer and is left alone for a while", "condition", c.To.String(), "error", c.Err, from)
	}
}
