package guard_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

// It replaces the default logger, so it runs alone.
func TestFailuresAreLoggedWhereNobodyObserves(t *testing.T) {
	var out bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	t.Cleanup(func() { slog.SetDefault(old) })

	c := chain(&guardtest.Spy{Name: "admits"}, &guardtest.Spy{Name: "api", Err: errors.New("the store is down")})
	for range 3 {
		_, _ = c.Do(exchange(), func() (int, error) { return 0, nil })
	}
	x := exchange()
	_ = x.Serve(chain(refuses()), nil)

	got := out.String()
	if n := strings.Count(got, "\n"); n != 1 {
		t.Errorf("3 failures within a second and a refusal made %d lines:\n%s", n, got)
	}
	for _, want := range []string{"level=WARN", `"trafficguard: undecided"`, "policy=api", `route="GET /posts/:id"`, "mode=open", `err="the store is down"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
}

// A degraded decision is told to the observer, whichever way it went.
func TestDegradedDecisionsAreMarked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spy  *guardtest.Spy
		want bool
	}{
		{&guardtest.Spy{Decision: guard.Decision{Degraded: true}}, true},
		{&guardtest.Spy{Decision: guard.Decision{Degraded: true, Rejection: &guard.Rejection{}}}, true},
		{&guardtest.Spy{Err: errors.New("down")}, true},
		{&guardtest.Spy{Err: errors.New("down"), Mode: guard.Closed}, false},
		{&guardtest.Spy{}, false},
		{refuses(), false},
	} {
		var events []guard.Event
		tg := &guard.TrafficGuard{Observe: observe(&events)}
		x := exchange()
		_ = x.Serve(tg.Chain(c.spy), handlerThatDoesNothing)
		if len(events) != 1 || events[0].Degraded != c.want {
			t.Errorf("the events are %+v, want one with Degraded %t", events, c.want)
		}
	}
}
