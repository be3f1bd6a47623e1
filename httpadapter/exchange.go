package httpadapter

import (
	"context"
	"net/http"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// exchange is a [guard.Exchange].
type exchange struct {
	w http.ResponseWriter
	r *http.Request
}

func (x *exchange) Request() *http.Request         { return x.r }
func (x *exchange) ResponseHeader() http.Header    { return x.w.Header() }
func (x *exchange) PathParam(name string) string   { return x.r.PathValue(name) }
func (x *exchange) SetContext(ctx context.Context) { x.r = x.r.WithContext(ctx) }

// Route takes the pattern that matched apart: "[METHOD ][HOST]/[PATH]".
func (x *exchange) Route() guard.Route {
	method, pattern, found := strings.Cut(x.r.Pattern, " ")
	if !found {
		return guard.Route{Method: "*", Pattern: x.r.Pattern}
	}
	return guard.Route{Method: method, Pattern: strings.TrimLeft(pattern, " \t")}
}

func (x *exchange) Value(key string) any {
	stored, _ := x.r.Context().Value(valuesKey{}).(*values)
	for ; stored != nil; stored = stored.next {
		if stored.key == key {
			return stored.v
		}
	}
	return nil
}

// values are what [WithValue] stored, newest first. They are one context value, under a key without a size,
// because looking up a key that is a string would cost an allocation.
type values struct {
	key  string
	v    any
	next *values
}

type valuesKey struct{}

// WithValue returns a copy of r that carries v for policies to find under key, as gin.Context.Set and
// echo.Context.Set do. Middleware that knows who is calling uses it before the guard:
//
//	next.ServeHTTP(w, httpadapter.WithValue(r, "user_id", claims.Subject))
func WithValue(r *http.Request, key string, v any) *http.Request {
	next, _ := r.Context().Value(valuesKey{}).(*values)
	return r.WithContext(context.WithValue(r.Context(), valuesKey{}, &values{key, v, next}))
}
