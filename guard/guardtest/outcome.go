package guardtest

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
)

var errHandler = errors.New("the handler failed")

var outcomeCases = []adapterCase{
	{
		"status",
		"the outcome has the response's status where the framework knows it, 0 where it does not",
		func(t *testing.T, a Adapter) {
			spy := &Spy{}
			get(a.one(nil, status(http.StatusTeapot), spy))
			want := http.StatusTeapot
			if a.NoStatus {
				want = 0
			}
			if o := onlyOutcome(t, spy); o.Status != want {
				t.Errorf("the status is %d, not %d", o.Status, want)
			}
		},
	},
	{
		"status required",
		"a policy that requires the status gets it, the implicit 200 included",
		func(t *testing.T, a Adapter) {
			for want, h := range map[int]Handler{
				http.StatusTeapot: status(http.StatusTeapot),
				http.StatusOK:     func(http.ResponseWriter, *http.Request) error { return nil },
				http.StatusCreated: func(w http.ResponseWriter, _ *http.Request) error {
					w.WriteHeader(http.StatusCreated)
					_, err := w.Write([]byte("made"))
					return err
				},
			} {
				spy := &Spy{Needs: guard.RequireStatus}
				rec := get(a.one(nil, h, spy))
				if o := onlyOutcome(t, spy); o.Status != want || rec.Code != want {
					t.Errorf("the status is %d to the policy and %d to the client, not %d", o.Status, rec.Code, want)
				}
			}
		},
	},
	{
		"handler error",
		"the outcome has what the handler returned or recorded, and the framework has it too",
		func(t *testing.T, a Adapter) {
			if a.NoError {
				return
			}
			spy := &Spy{}
			rec := get(a.one(nil, func(w http.ResponseWriter, _ *http.Request) error {
				w.WriteHeader(http.StatusTeapot)
				return errHandler
			}, spy))
			if o := onlyOutcome(t, spy); !errors.Is(o.Err, errHandler) || !o.Ran || o.Status != http.StatusTeapot {
				t.Errorf("the outcome is %+v", o)
			}
			if rec.Code != http.StatusTeapot {
				t.Errorf("the response is %d", rec.Code)
			}
		},
	},
	{
		"latency",
		"a policy that requires the latency gets it, others do not pay for it",
		func(t *testing.T, a Adapter) {
			needs, other := &Spy{Needs: guard.RequireLatency}, &Spy{}
			h := func(http.ResponseWriter, *http.Request) error {
				for start := time.Now(); time.Since(start) == 0; {
					runtime.Gosched() // until the clock has moved
				}
				return nil
			}
			get(a.one(nil, h, needs))
			get(a.one(nil, h, other))
			if o := onlyOutcome(t, needs); o.Latency <= 0 {
				t.Errorf("the latency is %s", o.Latency)
			}
			if o := onlyOutcome(t, other); o.Latency != 0 {
				t.Errorf("the latency is %s, though nobody asked", o.Latency)
			}
		},
	},
	{
		"panic",
		"a panic of the handler passes through unchanged, after every After has run",
		func(t *testing.T, a Adapter) {
			for _, fault := range []any{"oops", http.ErrAbortHandler} {
				outer, inner := &Spy{Name: "outer"}, &Spy{Name: "inner", Needs: guard.RequireStatus}
				h := a.one(nil, func(http.ResponseWriter, *http.Request) error { panic(fault) }, outer, inner)
				if got := recovered(func() { get(h) }); got != fault {
					t.Errorf("the handler panicked with %v, recovered was %v", fault, got)
				}
				for _, s := range []*Spy{outer, inner} {
					if o := onlyOutcome(t, s); !o.Ran || !o.Panicked || o.Status != 0 || o.Err != nil {
						t.Errorf("%s: the outcome is %+v", s.Name, o)
					}
				}
				if rec := get(a.one(nil, says("next", nil), outer, inner)); rec.Body.String() != "next" {
					t.Errorf("the request after the panic is answered with %q", rec.Body)
				}
			}
		},
	},
	{
		"Goexit",
		"runtime.Goexit in the handler is like a panic: every After runs",
		func(t *testing.T, a Adapter) {
			spy := &Spy{}
			h := a.one(nil, func(http.ResponseWriter, *http.Request) error { runtime.Goexit(); return nil }, spy)
			done := make(chan struct{})
			go func() {
				defer close(done)
				get(h)
			}()
			<-done
			if o := onlyOutcome(t, spy); !o.Ran || !o.Panicked {
				t.Errorf("the outcome is %+v", o)
			}
		},
	},
	{
		"panicking After",
		"an After that panics does not keep the others from running",
		func(t *testing.T, a Adapter) {
			outer, inner := &Spy{Name: "outer"}, &Spy{Name: "inner"}
			broken := &Spy{Name: "broken", OnAfter: func(context.Context, guard.Exchange, guard.Decision, guard.Outcome) error {
				panic("After of broken")
			}}
			h := a.one(nil, says("", nil), outer, broken, inner)
			if fault := recovered(func() { get(h) }); fault != "After of broken" {
				t.Errorf("recovered was %v", fault)
			}
			onlyOutcome(t, outer)
			onlyOutcome(t, inner)
		},
	},
	{
		"panicking Before",
		"a Before that panics releases what came before it, and the handler does not run",
		func(t *testing.T, a Adapter) {
			ran, outer := 0, &Spy{Name: "outer"}
			broken := &Spy{Name: "broken", OnBefore: func(context.Context, guard.Exchange) (guard.Decision, error) {
				panic("Before of broken")
			}}
			h := a.one(nil, says("", &ran), outer, broken)
			if fault := recovered(func() { get(h) }); fault != "Before of broken" || ran != 0 {
				t.Errorf("recovered was %v, the handler ran %d times", fault, ran)
			}
			if o := onlyOutcome(t, outer); o.Ran || len(broken.Outcomes()) != 0 {
				t.Errorf("the outcome is %+v, After of the broken policy ran %d times", o, len(broken.Outcomes()))
			}
		},
	},
	{
		"failing After",
		"an error of After is reported, and changes nothing for the client",
		func(t *testing.T, a Adapter) {
			var events []guard.Event
			tg := &guard.TrafficGuard{Observe: func(_ context.Context, e guard.Event) { events = append(events, e) }}
			lost := errors.New("the lease is lost")
			spy := &Spy{Name: "pool", OnAfter: func(context.Context, guard.Exchange, guard.Decision, guard.Outcome) error {
				return lost
			}}
			if rec := get(a.one(tg, says("served", nil), spy)); rec.Code != 200 || rec.Body.String() != "served" {
				t.Errorf("the response is %d %q", rec.Code, rec.Body)
			}
			if n := len(events); n != 2 || events[1].Kind != guard.ReleaseFailed || !errors.Is(events[1].Err, lost) {
				t.Errorf("the events are %+v", events)
			}
		},
	},
	{
		"inner refusal",
		"where a guard further in refuses, the handler has not run, to the policies of the outer guard too",
		func(t *testing.T, a Adapter) {
			ran, outer := 0, &Spy{Name: "outer"}
			h := a.Mount(App{
				TrafficGuard: new(guard.TrafficGuard), Group: policies(outer),
				Routes: []Route{{
					Method: http.MethodGet, Pattern: item, Policies: policies(refusing("api")), Handler: says("", &ran),
				}},
			})
			rec := get(h)
			if rec.Code != 429 || rec.Body.String() != rateLimited || ran != 0 {
				t.Errorf("the handler ran %d times, the response is %d %q", ran, rec.Code, rec.Body)
			}
			var rej *guard.Rejection
			o := onlyOutcome(t, outer)
			if inner := errors.As(o.Err, &rej) && rej.Policy == "api"; o.Ran != a.NoInner || inner == a.NoInner || o.Panicked {
				t.Errorf("the outcome is %+v", o)
			}
		},
	},
	{
		"inner admission",
		"where two guards admit, each policy sees one handler that has run",
		func(t *testing.T, a Adapter) {
			app, group, route := &Spy{Name: "app"}, &Spy{Name: "group"}, &Spy{Name: "route"}
			get(a.Mount(App{
				TrafficGuard: new(guard.TrafficGuard), Use: policies(app), Group: policies(group),
				Routes: []Route{{Method: http.MethodGet, Pattern: item, Policies: policies(route), Handler: says("", nil)}},
			}))
			for _, s := range []*Spy{app, group, route} {
				if o := onlyOutcome(t, s); !o.Ran || o.Panicked || o.Err != nil {
					t.Errorf("%s: the outcome is %+v", s.Name, o)
				}
			}
		},
	},
	{
		"twice",
		"a policy value that is attached to both a group and a route decides twice, and is released twice",
		func(t *testing.T, a Adapter) {
			spy := &Spy{Name: "both", Log: new(Log)}
			get(a.Mount(App{
				TrafficGuard: new(guard.TrafficGuard), Group: policies(spy),
				Routes: []Route{{Method: http.MethodGet, Pattern: item, Policies: policies(spy), Handler: says("", nil)}},
			}))
			if got := spy.Log.Lines(); !slices.Equal(got, []string{"before both", "before both", "after both", "after both"}) {
				t.Errorf("the hooks ran as %v", got)
			}
		},
	},
}

// status returns a handler that answers with a status and no body.
func status(code int) Handler {
	return func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(code); return nil }
}
