package guardtest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
)

var admissionCases = []adapterCase{
	{
		"admitted",
		"a request that every policy admits reaches the handler once, and its response is the handler's",
		func(t *testing.T, a Adapter) {
			ran, spy := 0, &Spy{}
			rec := get(a.one(nil, says("served", &ran), spy))
			if ran != 1 || rec.Code != http.StatusOK || rec.Body.String() != "served" {
				t.Errorf("the handler ran %d times; the response is %d %q", ran, rec.Code, rec.Body)
			}
			if o := onlyOutcome(t, spy); !o.Ran || o.Panicked || o.Err != nil {
				t.Errorf("the outcome is %+v", o)
			}
		},
	},
	{
		"no policies",
		"a guard without policies admits",
		func(t *testing.T, a Adapter) {
			h := a.Mount(App{
				TrafficGuard: new(guard.TrafficGuard),
				Use:          []guard.GuardPolicy{},
				Routes: []Route{{
					Method: http.MethodGet, Pattern: item, Policies: []guard.GuardPolicy{}, Handler: says("served", nil),
				}},
			})
			if rec := get(h); rec.Body.String() != "served" {
				t.Errorf("the response is %d %q", rec.Code, rec.Body)
			}
		},
	},
	{
		"order",
		"policies run in the order in which they are written, the application's and the group's outside the route's, and After in reverse",
		func(t *testing.T, a Adapter) {
			seen := new(Log)
			spy := func(name string) *Spy { return &Spy{Name: name, Log: seen} }
			h := a.Mount(App{
				TrafficGuard: new(guard.TrafficGuard),
				Use:          policies(spy("app")),
				Group:        policies(spy("group")),
				Routes: []Route{{
					Method: http.MethodGet, Pattern: item, Policies: policies(spy("first"), spy("second")),
					Handler: func(http.ResponseWriter, *http.Request) error { seen.Add("handler"); return nil },
				}},
			})
			get(h)
			want := []string{
				"before app", "before group", "before first", "before second", "handler",
				"after second", "after first", "after group", "after app",
			}
			if got := seen.Lines(); !slices.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), strings.Join(want, ", "))
			}
		},
	},
	{
		"not supported",
		"a policy that does not support a request takes no part in it",
		func(t *testing.T, a Adapter) {
			ran, spy := 0, &Spy{Ignore: true, Decision: refusing("").Decision}
			get(a.one(nil, says("", &ran), spy))
			if n := len(spy.Routes()) + len(spy.Outcomes()); n != 0 || ran != 1 {
				t.Errorf("%d hooks of the policy ran, the handler %d times", n, ran)
			}
		},
	},
	{
		"shared",
		"one policy value may guard several routes and several applications",
		func(t *testing.T, a Adapter) {
			tg, spy := new(guard.TrafficGuard), &Spy{Name: "shared"}
			app := App{TrafficGuard: tg, Routes: []Route{
				{Method: http.MethodGet, Pattern: item, Policies: policies(spy), Handler: says("", nil)},
				{Method: http.MethodPost, Pattern: item, Policies: policies(spy), Handler: says("", nil)},
			}}
			first, second := a.Mount(app), a.Mount(app)
			send(first, http.MethodGet, "/items/1")
			send(second, http.MethodGet, "/items/1")
			send(second, http.MethodPost, "/items/1")
			if n := len(spy.Outcomes()); n != 3 {
				t.Errorf("the policy saw %d of 3 requests", n)
			}
		},
	},
	{
		"nine policies",
		"a chain may have any number of policies",
		func(t *testing.T, a Adapter) {
			seen := new(Log)
			var spies []*Spy
			for i := range 9 {
				spies = append(spies, &Spy{Name: fmt.Sprint(i), Log: seen})
			}
			get(a.one(nil, says("", nil), policies(spies...)...))
			lines := seen.Lines()
			if len(lines) != 18 || lines[8] != "before 8" || lines[9] != "after 8" || lines[17] != "after 0" {
				t.Errorf("the hooks ran as %v", lines)
			}
		},
	},
	{
		"concurrent",
		"requests that run at the same time do not see each other",
		func(t *testing.T, a Adapter) {
			spy := &Spy{OnBefore: func(_ context.Context, x guard.Exchange) (guard.Decision, error) {
				id := x.PathParam("id")
				return guard.Decision{State: &id}, nil
			}}
			spy.OnAfter = func(_ context.Context, x guard.Exchange, d guard.Decision, _ guard.Outcome) error {
				if id := *d.State.(*string); id != x.PathParam("id") || x.Request().URL.Path != "/items/"+id {
					t.Errorf("After of %s was given the state of %s", x.Request().URL.Path, id)
				}
				return nil
			}
			const together = 8
			for range 20 {
				var arrived atomic.Int64
				all := make(chan struct{})
				h := a.one(nil, func(w http.ResponseWriter, r *http.Request) error {
					if arrived.Add(1) == together {
						close(all)
					}
					select {
					case <-all:
					case <-time.After(10 * time.Second):
						t.Errorf("of %d requests at the same time %d reach the handler", together, arrived.Load())
					}
					_, err := w.Write([]byte(r.URL.Path))
					return err
				}, spy)
				var answered sync.WaitGroup
				for i := range together {
					answered.Go(func() {
						target := fmt.Sprintf("/items/%d", i)
						if got := send(h, http.MethodGet, target).Body.String(); got != target {
							t.Errorf("the request for %s was answered with %s", target, got)
						}
					})
				}
				answered.Wait()
			}
			if n := len(spy.Outcomes()); n != 20*together {
				t.Errorf("After ran %d times for %d requests", n, 20*together)
			}
		},
	},
}
