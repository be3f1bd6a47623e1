package guardtest_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

// adapter is one for net/http, with whatever fault.
type adapter struct{ fault string }

func (a adapter) describe() guardtest.Adapter {
	return guardtest.Adapter{Mount: a.mount, NoError: true, NoInner: true}
}

func (a adapter) mount(app guardtest.App) http.Handler {
	mux := http.NewServeMux()
	for _, route := range app.Routes {
		h := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = route.Handler(w, r) }))
		for _, list := range [][]guard.GuardPolicy{route.Policies, app.Group} {
			if list != nil {
				h = a.with(app.TrafficGuard, app.Values, list, h)
			}
		}
		mux.Handle(route.Method+" "+route.Pattern, h)
	}
	if app.Use == nil {
		return mux
	}
	return a.with(app.TrafficGuard, app.Values, app.Use, mux)
}

func (a adapter) with(tg *guard.TrafficGuard, values map[string]any, list []guard.GuardPolicy, next http.Handler) http.Handler {
	if a.fault == "wrong order" {
		list = slices.Clone(list)
		slices.Reverse(list)
	}
	chain, shared := tg.Chain(list...), new(exchange)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := new(exchange)
		if a.fault == "shared state" {
			x = shared
		}
		*x = exchange{a.fault, &statusWriter{ResponseWriter: w}, r, values}
		a.serve(chain, x, next)
	})
}

func (a adapter) serve(chain *guard.Chain, x *exchange, next http.Handler) {
	if a.fault == "recovers" {
		defer func() { _ = recover() }()
	}
	incoming := x.r
	rej, _ := chain.Do(x, func() (int, error) {
		r, w := x.r, http.ResponseWriter(x.w)
		switch a.fault {
		case "stale request":
			r = incoming
		case "bare writer":
			w = struct{ http.ResponseWriter }{w}
		}
		next.ServeHTTP(w, r)
		return x.status(), nil
	})
	if rej == nil {
		return
	}
	if a.fault == "clears headers" {
		clear(x.w.Header())
	}
	if a.fault != "no answer" {
		chain.Answer(x.w, x.r, rej)
	}
	if a.fault == "answers twice" {
		_, _ = x.w.Write(rej.Problem())
	}
	if a.fault == "goes on" {
		next.ServeHTTP(x.w, x.r)
	}
}

type exchange struct {
	fault  string
	w      *statusWriter
	r      *http.Request
	values map[string]any
}

func (x *exchange) status() int {
	if x.fault == "no status" {
		return 0
	}
	return max(x.w.status, http.StatusOK)
}

func (x *exchange) Request() *http.Request         { return x.r }
func (x *exchange) ResponseHeader() http.Header    { return x.w.Header() }
func (x *exchange) SetContext(ctx context.Context) { x.r = x.r.WithContext(ctx) }

func (x *exchange) PathParam(name string) string {
	if x.fault == "no parameters" {
		return ""
	}
	return x.r.PathValue(name)
}

func (x *exchange) Value(key string) any {
	if x.fault == "no values" {
		return nil
	}
	return x.values[key]
}

func (x *exchange) Route() guard.Route {
	switch {
	case x.r.Pattern == "" && x.fault == "own method":
		return guard.Route{Method: x.r.Method}
	case x.r.Pattern == "":
		return guard.Route{Method: "*"}
	case x.fault == "raw path":
		return guard.Route{Method: x.r.Method, Pattern: x.r.URL.Path}
	}
	method, pattern, _ := strings.Cut(x.r.Pattern, " ") // mount always writes both
	return guard.Route{Method: method, Pattern: pattern}
}

// statusWriter has the methods that the suite looks for.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
