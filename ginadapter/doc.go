// Package ginadapter guards the routes of Gin applications with TrafficGuard policies. It translates and
// decides nothing: the rules are those of package guard.
//
//	guard := ginadapter.New(tg) // tg *guard.TrafficGuard, or nil
//
//	r.Use(gin.Recovery(), cors.Default(), authenticate)
//	api := r.Group("/api", guard.With(shed))
//	api.GET("/posts/:id", guard.With(perUser), show)
//
// An application that configures nothing can do without New:
//
//	import guard "github.com/trafficguard-go/trafficguard/ginadapter"
//
//	r.GET("/posts/:id", guard.With(perUser), show)
//
// # Where to mount
//
//   - Build policies once, where routes are declared, never inside a handler.
//   - A policy value that is attached to both a group and a route decides twice. A quota header then shows
//     the tighter of the two, and what the outer one charged stays charged if the inner one refuses.
//   - A policy without a name counts every route for itself, by method and pattern. [gin.Engine.Any]
//     registers nine routes and so gives a client nine such counts: name the policies that guard it.
//   - Recovery belongs outside the guard: the guard lets panics through, after releasing what it took.
//   - CORS belongs before the guard: preflights are then free, and a refusal carries the CORS headers. The
//     guard leaves headers that are already set alone.
//   - What stores the caller's identity (authentication) comes before the guard that counts by it.
//   - A timeout middleware outside the guard leaves everything taken until the handler really returns. One
//     inside the guard ends the exchange when it answers: a handler that ignores its context still runs
//     then, and is no longer counted.
//
// # What a policy sees
//
// A request that no route matched, one with a method that the path does not have included, has the route
// "*" with an empty pattern. Values are those of [gin.Context.Set], and the status in the outcome is that of
// [gin.Context.Writer]; the error is the last one that was recorded with [gin.Context.Error] inside the guard.
package ginadapter
