package ginadapter

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/trafficguard-go/trafficguard/guard"
)

// A Guard makes Gin handlers out of policies. Make it with [New]; the zero Guard is like New(nil). It is immutable and safe for concurrent
// use.
type Guard struct {
	tg *guard.TrafficGuard
}

// New returns the Guard of an application. A nil tg is like a zero one. Give several adapters the same tg and
// they answer, report and name alike.
func New(tg *guard.TrafficGuard) *Guard {
	if tg == nil {
		tg = new(guard.TrafficGuard)
	}
	return &Guard{tg: tg}
}

// With returns a handler that admits a request through policies, the first outermost, to the handlers after
// it. A refused request is aborted and answered. The policies are compiled here, once: With panics where
// [guard.TrafficGuard.Chain] does.
func (g *Guard) With(policies ...guard.GuardPolicy) gin.HandlerFunc {
	chain := g.tg.Chain(policies...)
	return func(c *gin.Context) {
		rej, _ := chain.Do(exchange{c}, func() (int, error) {
			recorded := len(c.Errors)
			c.Next()
			return c.Writer.Status(), failure(c, recorded)
		})
		if rej == nil {
			return
		}
		// Abort first: if a custom answer panics, a middleware that recovers must not go on to the handler.
		c.Abort()
		c.Set(refusedKey{}, rej)
		chain.Answer(c.Writer, c.Request, rej)
		c.Writer.WriteHeaderNow()
	}
}

// With is New(nil).With, for applications that configure nothing. Two policies of one name go unnoticed by it: only a
// TrafficGuard that sees both can refuse that.
func With(policies ...guard.GuardPolicy) gin.HandlerFunc { return New(nil).With(policies...) }

// refusedKey is where a guard leaves its rejection for the guards around it.
type refusedKey struct{}

// failure returns what became of the handlers: the rejection if a guard further in refused, else the last
// error recorded since there were recorded ones, else nil.
func failure(c *gin.Context, recorded int) error {
	if c.IsAborted() {
		if rej, ok := c.Get(refusedKey{}); ok {
			return rej.(*guard.Rejection)
		}
	}
	if len(c.Errors) > recorded {
		return c.Errors.Last()
	}
	return nil
}

// exchange is a [guard.Exchange]. Being one pointer, it goes into the interface without an allocation.
type exchange struct{ c *gin.Context }

func (x exchange) Request() *http.Request         { return x.c.Request }
func (x exchange) ResponseHeader() http.Header    { return x.c.Writer.Header() }
func (x exchange) PathParam(name string) string   { return x.c.Param(name) }
func (x exchange) SetContext(ctx context.Context) { x.c.Request = x.c.Request.WithContext(ctx) }

func (x exchange) Value(key string) any {
	v, _ := x.c.Get(key)
	return v
}

// Route trusts the request's method only where a route matched, since Gin has one tree for each registered method, and only
// if it is one that people register: a middleware that takes the method from a header of the client's may have changed it.
func (x exchange) Route() guard.Route {
	pattern, method := x.c.FullPath(), x.c.Request.Method
	if pattern == "" {
		return guard.Route{Method: "*"}
	}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return guard.Route{Method: method, Pattern: pattern}
	default:
		return guard.Route{Method: "*", Pattern: pattern}
	}
}
