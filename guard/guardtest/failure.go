package guardtest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
)

var errStore = errors.New("dial tcp 10.0.0.3:6379: connection refused")

var failureCases = []adapterCase{
	{
		"undecided",
		"a policy that could not decide is passed over in open mode and answered with 503 in closed mode, the policy's own word before the application's",
		func(t *testing.T, a Adapter) {
			unsure := func(m guard.FailureMode) *Spy { return &Spy{Name: "api", Err: errStore, Mode: m} }
			same := func(p guard.GuardPolicy) guard.GuardPolicy { return p }
			openOfClosed := func(p guard.GuardPolicy) guard.GuardPolicy { return guard.FailOpen(guard.FailClosed(p)) }
			closedOfOpen := func(p guard.GuardPolicy) guard.GuardPolicy { return guard.FailClosed(guard.FailOpen(p)) }
			for name, c := range map[string]struct {
				app  guard.FailureMode
				spy  *Spy
				mark func(guard.GuardPolicy) guard.GuardPolicy
				open bool
			}{
				"open by default":          {guard.Inherit, unsure(guard.Inherit), same, true},
				"application open":         {guard.Open, unsure(guard.Inherit), same, true},
				"application closed":       {guard.Closed, unsure(guard.Inherit), same, false},
				"policy closed":            {guard.Open, unsure(guard.Closed), same, false},
				"policy open":              {guard.Closed, unsure(guard.Open), same, true},
				"FailClosed":               {guard.Open, unsure(guard.Open), guard.FailClosed, false},
				"FailOpen":                 {guard.Closed, unsure(guard.Closed), guard.FailOpen, true},
				"FailOpen of a FailClosed": {guard.Closed, unsure(guard.Inherit), openOfClosed, true},
				"FailClosed of a FailOpen": {guard.Open, unsure(guard.Inherit), closedOfOpen, false},
			} {
				ran, next := 0, &Spy{Name: "next"}
				var last guard.Event
				tg := &guard.TrafficGuard{FailureMode: c.app, Observe: func(_ context.Context, e guard.Event) {
					if e.Kind == guard.Undecided {
						last = e
					}
				}}
				rec := get(a.one(tg, says("served", &ran), c.mark(c.spy), next))
				if open := ran == 1 && rec.Code == 200 && len(next.Outcomes()) == 1; open != c.open {
					t.Errorf("%s: the handler ran %d times, the response is %d", name, ran, rec.Code)
				}
				if !errors.Is(last.Err, errStore) || last.Policy != "api" || (last.Mode == guard.Open) != c.open {
					t.Errorf("%s: the event is %+v", name, last)
				}
				if len(c.spy.Outcomes()) != 0 {
					t.Errorf("%s: After ran for a Before that failed", name)
				}
				if strings.Contains(rec.Body.String(), "10.0.0.3") {
					t.Errorf("%s: the client is told the cause: %s", name, rec.Body)
				}
				if !c.open && (rec.Code != 503 || rec.Result().Header.Get("Retry-After") == "") {
					t.Errorf("%s: the response is %d %v", name, rec.Code, rec.Header())
				}
			}
		},
	},
	{
		"undecided with a decision",
		"a decision that comes with an error is ignored, and the policy gets no After",
		func(t *testing.T, a Adapter) {
			ran, spy := 0, refusing("api")
			spy.Err = errStore
			tg := &guard.TrafficGuard{Observe: func(context.Context, guard.Event) {}}
			get(a.one(tg, says("", &ran), spy))
			if ran != 1 || len(spy.Outcomes()) != 0 {
				t.Errorf("the handler ran %d times, After %d times", ran, len(spy.Outcomes()))
			}
		},
	},
	{
		"client gone",
		"a request whose client hung up while a policy was asking is refused, in open mode too: hanging up is no way around a limit",
		func(t *testing.T, a Adapter) {
			ctx, cancel := context.WithCancel(t.Context())
			spy := &Spy{OnBefore: func(ctx context.Context, _ guard.Exchange) (guard.Decision, error) {
				cancel()
				return guard.Decision{}, ctx.Err()
			}}
			ran, outer := 0, &Spy{Name: "outer"}
			h := a.one(&guard.TrafficGuard{FailureMode: guard.Open}, says("", &ran), outer, spy)
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/items/7", nil).WithContext(ctx))
			if ran != 0 || rec.Code != 499 || onlyOutcome(t, outer).Ran {
				t.Errorf("the handler ran %d times, the response is %d", ran, rec.Code)
			}
		},
	},
	{
		"deadline passed",
		"a request whose own deadline passed while a policy was asking is refused with 503",
		func(t *testing.T, a Adapter) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			spy := &Spy{OnBefore: func(ctx context.Context, _ guard.Exchange) (guard.Decision, error) {
				<-ctx.Done()
				return guard.Decision{}, ctx.Err()
			}}
			ran := 0
			rec := httptest.NewRecorder()
			a.one(nil, says("", &ran), spy).
				ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/items/7", nil).WithContext(ctx))
			if ran != 0 || rec.Code != http.StatusServiceUnavailable {
				t.Errorf("the handler ran %d times, the response is %d", ran, rec.Code)
			}
		},
	},
	{
		"budget",
		"only a policy that requires a budget decides within a deadline, and the handler has none of it",
		func(t *testing.T, a Adapter) {
			limited := map[string]bool{}
			note := func(who string) func(context.Context, guard.Exchange) (guard.Decision, error) {
				return func(ctx context.Context, _ guard.Exchange) (guard.Decision, error) {
					ctx, done := guard.WithinBudget(ctx)
					defer done()
					_, limited[who] = ctx.Deadline()
					return guard.Decision{}, nil
				}
			}
			get(a.one(&guard.TrafficGuard{Budget: time.Hour}, func(_ http.ResponseWriter, r *http.Request) error {
				_, limited["handler"] = r.Context().Deadline()
				if r.Context().Err() != nil {
					limited["handler"] = true
				}
				return nil
			}, &Spy{OnBefore: note("local")}, &Spy{Needs: guard.RequireBudget, OnBefore: note("remote")}))
			if limited["local"] || !limited["remote"] || limited["handler"] {
				t.Errorf("a deadline had: %v", limited)
			}
		},
	},
	{
		"budget spent",
		"what was not answered within the budget counts as not decided",
		func(t *testing.T, a Adapter) {
			spy := &Spy{Needs: guard.RequireBudget, OnBefore: func(ctx context.Context, _ guard.Exchange) (guard.Decision, error) {
				ctx, done := guard.WithinBudget(ctx)
				defer done()
				<-ctx.Done()
				return guard.Decision{}, ctx.Err()
			}}
			ran, kind := 0, guard.EventKind(0)
			tg := &guard.TrafficGuard{Budget: time.Millisecond, Observe: func(_ context.Context, e guard.Event) { kind = e.Kind }}
			if rec := get(a.one(tg, says("", &ran), spy)); ran != 1 || rec.Code != 200 || kind != guard.Undecided {
				t.Errorf("the handler ran %d times, the response is %d, the event is %q", ran, rec.Code, kind)
			}
		},
	},
}
