// Package echov5adapter guards the routes of Echo v5 applications with TrafficGuard policies. It translates
// and decides nothing: the rules are those of package guard. For Echo v4 there is package echoadapter.
//
//	guard := echov5adapter.New(tg) // tg *guard.TrafficGuard, or nil
//
//	e.Use(middleware.Recover(), middleware.CORS("https://shop.example"), authenticate)
//	api := e.Group("/api", guard.With(shed))
//	api.GET("/posts/:id", show, guard.With(perUser))
//
// An application that configures nothing can do without New:
//
//	import guard "github.com/trafficguard-go/trafficguard/echov5adapter"
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
// A route that takes any method, a RouteNotFound one included, has the method "*". A request that no route
// matched, one with a method that the path does not have included, has the route "*" with an empty pattern, as
// has every request in [echo.Echo.Pre]. Values are those of [echo.Context.Set]. The error in the outcome is the
// one that the handler returned, and the status is the one that Echo derives from it; an HTTPErrorHandler of the
// application's own may still choose another, and to a route's own guard the status of a HEAD request that Echo
// answers by its GET handler is always 200.
//
// # Who answers
//
// The guard answers a refused request itself and returns nil, so that no error handler answers a second time.
// See [Guard.ReturnRejections] for leaving the answer to the application.
package echov5adapter
