package echoadapter

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"

	"github.com/trafficguard-go/trafficguard/guard"
)

// exchange is a [guard.Exchange].
type exchange struct {
	c      echo.Context
	routes *routes
}

func (x *exchange) Request() *http.Request         { return x.c.Request() }
func (x *exchange) ResponseHeader() http.Header    { return x.c.Response().Header() }
func (x *exchange) PathParam(name string) string   { return x.c.Param(name) }
func (x *exchange) Value(key string) any           { return x.c.Get(key) }
func (x *exchange) SetContext(ctx context.Context) { x.c.SetRequest(x.c.Request().WithContext(ctx)) }

// Route takes the request's method only if the path that matched was registered with it. A client could choose
// between any number of routes otherwise, where Echo runs one handler for all methods.
func (x *exchange) Route() guard.Route {
	pattern, method := x.c.Path(), x.c.Request().Method
	switch {
	case pattern == "":
		return guard.Route{Method: "*"}
	case x.routes.registered(router(x.c), method, pattern):
		return guard.Route{Method: method, Pattern: pattern}
	case x.c.Get(echo.ContextKeyHeaderAllow) != nil: // the path has other methods only
		return guard.Route{Method: "*"}
	default:
		return guard.Route{Method: "*", Pattern: pattern}
	}
}

// router returns the router that Echo asks for the request's host.
func router(c echo.Context) *echo.Router {
	if r, ok := c.Echo().Routers()[c.Request().Host]; ok {
		return r
	}
	return c.Echo().Router()
}

// routes knows the methods of each path, as they were when a request first asked for that path: Echo's own
// table can only be copied whole. The zero value is ready to use.
type routes struct {
	mu    sync.Mutex
	known atomic.Pointer[map[path][]string]
}

type path struct {
	router  *echo.Router
	pattern string
}

// registered reports whether pattern was registered with method, and not with every method there is.
func (rs *routes) registered(r *echo.Router, method, pattern string) bool {
	if known := rs.known.Load(); known != nil {
		if methods, ok := (*known)[path{r, pattern}]; ok {
			return slices.Contains(methods, method)
		}
	}
	return slices.Contains(rs.learn(r)[path{r, pattern}], method)
}

// learn reads the table of r. It happens once for a router, and again where a path was registered later.
func (rs *routes) learn(r *echo.Router) map[path][]string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	grown := make(map[path][]string)
	if known := rs.known.Load(); known != nil {
		grown = maps.Clone(*known)
		maps.DeleteFunc(grown, func(p path, _ []string) bool { return p.router == r })
	}
	for _, route := range r.Routes() {
		p := path{r, route.Path}
		methods := grown[p]
		if route.Method != echo.RouteNotFound { // else the path is known, but the method must be nobody's
			methods = append(methods, route.Method)
		}
		grown[p] = methods
	}
	for p, methods := range grown {
		if takesAny(methods) {
			grown[p] = nil
		}
	}
	rs.known.Store(&grown)
	return grown
}

// takesAny reports whether methods are all those of [echo.Echo.Any].
func takesAny(methods []string) bool {
	for _, m := range [...]string{
		http.MethodConnect, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch,
		http.MethodPost, echo.PROPFIND, http.MethodPut, http.MethodTrace, echo.REPORT,
	} {
		if !slices.Contains(methods, m) {
			return false
		}
	}
	return true
}
