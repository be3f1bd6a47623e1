package httpadapter_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/httpadapter"
)

// local is a policy that looks at everything and decides at once.
type local struct {
	guard.Base
	quota    guard.Quota
	rejected *guard.Rejection
	needs    guard.Requirement
	length   int
}

func (l *local) Requires() guard.Requirement { return l.needs }

func (l *local) Before(_ context.Context, x guard.Exchange) (guard.Decision, error) {
	user, _ := x.Value("user_id").(string)
	l.length = len(x.Route().Pattern) + len(x.PathParam("id")) + len(user) + len(x.Request().Method)
	return guard.Decision{State: &l.length, Quota: l.quota, Rejection: l.rejected}, nil
}

var (
	quota    = guard.Quota{Format: guard.IETF, Limit: 100, Remaining: 42, Window: time.Minute, Reset: time.Second}
	rejected = &guard.Rejection{Code: guard.RateLimitExceeded}
)

// discard is a writer that costs nothing.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// serving returns a function that serves one request to /items/7.
func serving(h http.Handler) func() {
	r, err := http.NewRequest(http.MethodGet, "/items/7", nil)
	if err != nil {
		panic(err)
	}
	w := discard{http.Header{}}
	return func() {
		clear(w.h)
		h.ServeHTTP(w, r)
	}
}

// app returns an application with one route behind guards.
func app(guards ...func(http.Handler) http.Handler) http.Handler {
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, g := range guards {
		h = g(h)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", h)
	return mux
}

func noop(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, r) })
}

func BenchmarkHTTP(b *testing.B) {
	for _, c := range []struct {
		name string
		app  http.Handler
	}{
		{"bare", app()},
		{"noop", app(noop)},
		{"guarded", app(httpadapter.With(&local{}))},
		{"quota", app(httpadapter.With(&local{quota: quota}))},
		{"status", app(httpadapter.With(&local{needs: guard.RequireStatus}))},
		{"refused", app(httpadapter.With(&local{rejected: rejected}))},
	} {
		b.Run(c.name, func(b *testing.B) {
			serve := serving(c.app)
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}
