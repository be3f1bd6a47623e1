package ginadapter_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/trafficguard-go/trafficguard/ginadapter"
	"github.com/trafficguard-go/trafficguard/guard"
)

// local is a policy that looks at everything and decides at once.
type local struct {
	guard.Base
	quota    guard.Quota
	rejected *guard.Rejection
	length   int
}

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
func app(guards ...gin.HandlerFunc) http.Handler {
	r := gin.New()
	r.GET("/items/:id", append(guards, func(c *gin.Context) { c.Status(http.StatusNoContent) })...)
	return r
}

func noop(c *gin.Context) { c.Next() }

func BenchmarkGin(b *testing.B) {
	for _, c := range []struct {
		name string
		app  http.Handler
	}{
		{"bare", app()},
		{"noop", app(noop)},
		{"guarded", app(ginadapter.With(&local{}))},
		{"quota", app(ginadapter.With(&local{quota: quota}))},
		{"refused", app(ginadapter.With(&local{rejected: rejected}))},
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
