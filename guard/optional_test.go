package guard_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

// onlyPost is how an application narrows a policy down: by embedding it.
type onlyPost struct{ guard.GuardPolicy }

func (p onlyPost) Supports(x guard.Exchange) bool { return x.Request().Method == "GET" }

// shadow does not embed: it says itself what it wraps.
type shadow struct{ inner guard.GuardPolicy }

func (s *shadow) Unwrap() guard.GuardPolicy      { return s.inner }
func (s *shadow) Supports(x guard.Exchange) bool { return s.inner.Supports(x) }
func (s *shadow) Before(ctx context.Context, x guard.Exchange) (guard.Decision, error) {
	return s.inner.Before(ctx, x)
}
func (s *shadow) After(ctx context.Context, x guard.Exchange, d guard.Decision, o guard.Outcome) error {
	return s.inner.After(ctx, x, d, o)
}

// TestWrappersKeepWhatAPolicySaysOfItself: a fail-closed policy that an application wraps must not fail open.
func TestWrappersKeepWhatAPolicySaysOfItself(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(guard.GuardPolicy) guard.GuardPolicy{
		"embedding":            func(p guard.GuardPolicy) guard.GuardPolicy { return onlyPost{p} },
		"embedding, a pointer": func(p guard.GuardPolicy) guard.GuardPolicy { return &onlyPost{p} },
		"Unwrap":               func(p guard.GuardPolicy) guard.GuardPolicy { return &shadow{p} },
		"twice":                func(p guard.GuardPolicy) guard.GuardPolicy { return &shadow{onlyPost{p}} },
		"inside FailClosed":    func(p guard.GuardPolicy) guard.GuardPolicy { return onlyPost{guard.FailClosed(p)} },
	} {
		var seen guard.Event
		tg := &guard.TrafficGuard{Observe: func(_ context.Context, e guard.Event) { seen = e }}
		down := &guardtest.Spy{Name: "login", Mode: guard.Closed, Needs: guard.RequireStatus, Err: errors.New("down")}
		c := tg.Chain(wrap(down), down)
		rej, _ := c.Do(exchange(), func() (int, error) { return 200, nil })
		if rej == nil || rej.Code != guard.GuardUnavailable || seen.Policy != "login" {
			t.Errorf("%s: %v, reported as %q; want refused, as login", name, rej, seen.Policy)
		}
		if c.Requires() != guard.RequireStatus {
			t.Errorf("%s: the chain requires %b", name, c.Requires())
		}
	}
}

// uncomparable is a policy as people write them: a value that holds a func.
type uncomparable struct {
	guard.Base
	now func()
}

func TestRegisteredNamesHoldForAnyPolicy(t *testing.T) {
	t.Parallel()
	var seen string
	tg := &guard.TrafficGuard{Observe: func(_ context.Context, e guard.Event) { seen = e.Policy }}
	tg.Register("hours", uncomparable{now: func() {}})
	tg.Register("hours", tg.Policy("hours"))
	_, _ = tg.Chain(guard.FailClosed(tg.Policy("hours"))).Do(exchange(), func() (int, error) { return 0, nil })
	if seen != "hours" {
		t.Errorf("reported as %q, want hours", seen)
	}
}

// TestRegisteredWrappersWin: a name that a chain has met by the way must not keep a stricter wrapper from being registered.
func TestRegisteredWrappersWin(t *testing.T) {
	t.Parallel()
	tg := &guard.TrafficGuard{Observe: func(context.Context, guard.Event) {}}
	down := &guardtest.Spy{Name: "pay", Err: errors.New("down")}
	tg.Chain(down)
	tg.Register("pay", guard.FailClosed(down))
	tg.Register("pay", guard.FailClosed(down))
	rej, _ := tg.Chain(tg.Policy("pay")).Do(exchange(), func() (int, error) { return 200, nil })
	if rej == nil || rej.Code != guard.GuardUnavailable {
		t.Errorf("%v: want the registered policy, which fails closed", rej)
	}
	defer func() {
		if recover() == nil {
			t.Error("the same policy was registered again with another wrapper, and nobody said anything")
		}
	}()
	tg.Register("pay", down)
}

// TestApplicationFaultsAreLogged: a refusal that no client can mend must not be silent.
func TestApplicationFaultsAreLogged(t *testing.T) { //nolint:paralleltest // it replaces the default logger
	var log bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(was)
	fault := &guardtest.Spy{Decision: guard.Decision{Rejection: &guard.Rejection{
		Code: guard.GuardUnavailable, Cause: errors.New("the value user_id is a float64"),
	}}}
	busy := &guardtest.Spy{Decision: guard.Decision{Rejection: &guard.Rejection{Code: guard.RateLimitExceeded, Cause: errors.New("usual")}}}
	for _, p := range []guard.GuardPolicy{fault, busy} {
		_, _ = new(guard.TrafficGuard).Chain(p).Do(exchange(), func() (int, error) { return 0, nil })
	}
	if s := log.String(); !strings.Contains(s, "float64") || strings.Contains(s, "usual") {
		t.Errorf("logged %q, want the application's fault and nothing else", s)
	}
}
