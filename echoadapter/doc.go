// Package echoadapter guards the routes of Echo v4 applications with TrafficGuard policies. It translates and
// decides nothing: the rules are those of package guard. For Echo v5 there is package echov5adapter.
//
//	guard := echoadapter.New(tg) // tg *guard.TrafficGuard, or nil
//
//	e.Use(middleware.Recover(), middleware.CORS(), authenticate)
//	api := e.Group("/api", guard.With(shed))
//	api.GET("/posts/:id", show, guard.With(perUser))
//
// An application that configures nothing can do without New:
//
//	import guard "github.com/trafficguard-go/trafficguard/echoadapter"
//
//	e.GET("/posts/:id", show, guard.With(perUser))
//
// # Where to mount
//
//   - Build policies once, where routes are declared, never inside a handler.
//   - A policy value that is attached to both a group and a route decides twice. A quota header then shows
//     the tighter of the two, and what the outer one charged stays charged if the inner one refuses.
//   - A policy without a name counts every route for itself, by method and pattern.
//   - Recover belongs outside the guard: the guard lets panics through, after releasing what it took.
//   - CORS belongs before the guard: preflights are then free, and a refusal carries the CORS headers. The
//     guard leaves headers that are already set alone.
//   - What stores the caller's identity (authentication) comes before the guard that counts by it.
//   - A timeout middleware outside the guard leaves everything taken until the handler really returns. One
//     inside the guard ends the exchange when it answers: a handler that ignores its context still runs
//     then, and is no longer counted.
//
// # What a policy sees
//
// Echo v4 does not say which method a route was registered with, so the guard looks it up in the router. A path
// that [echo.Echo.Any] registered, and a RouteNotFound one, has the method "*". A request that no route matched,
// one with a method that the path does not have included, has the route "*" with an empty pattern, as has every
// request in [echo.Echo.Pre]. Values are those of [echo.Context.Set]. The error in the outcome is the one that
// the handler returned, and the status is the one that the error carries, 500 where it carries none; an
// HTTPErrorHandler may still choose another.
//
// # Who answers
//
// The guard answers a refused request itself and returns nil, so that no error handler answers a second time.
// See [Guard.ReturnRejections] for leaving the answer to the application.
package echoadapter
