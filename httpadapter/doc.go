// Package httpadapter guards handlers of net/http, and of every router that takes its middleware, with
// TrafficGuard policies. It translates and decides nothing: the rules are those of package guard.
//
//	guard := httpadapter.New(tg) // tg *guard.TrafficGuard, or nil
//
//	mux.Handle("GET /posts/{id}", guard.With(perUser)(show))
//	http.ListenAndServe(addr, recovery(cors(authenticate(guard.With(shed)(mux)))))
//
// An application that configures nothing can do without New:
//
//	import guard "github.com/trafficguard-go/trafficguard/httpadapter"
//
//	mux.Handle("GET /posts/{id}", guard.With(perUser)(show))
//
// # Where to mount
//
//   - Build policies once, where routes are declared, never inside a handler.
//   - A policy value that is attached to both a mux and a route decides twice, and a quota header then shows
//     the tighter of the two. Nothing tells the outer guard that an inner one refused, since that would
//     cost every request something: to its policies the handler has run, and their charge stays. Where that
//     matters, put the policies into one With.
//   - A policy without a name counts every route for itself, by method and pattern. Around a whole mux no
//     route is known yet, so such a policy counts all requests together there.
//   - What recovers panics belongs outside the guard: it lets them through, after releasing what it took.
//   - CORS belongs before the guard: preflights are then free, and a refusal carries the CORS headers. The
//     guard leaves headers that are already set alone.
//   - What stores the caller's identity comes before the guard that counts by it; see [WithValue].
//   - [http.TimeoutHandler] outside the guard leaves everything taken until the handler really returns. Inside
//     the guard it ends the exchange when it answers: a handler that ignores its context still runs then, and
//     is no longer counted.
//
// # What a policy sees
//
// The route is [http.Request.Pattern] taken apart: "GET /posts/{id}" has the method GET, for HEAD requests too;
// "/posts/{id}", which takes any method, has "*". Values are those of [WithValue]. The status in the outcome is
// known, by wrapping the writer with all its optional methods kept, only if a policy of the chain asks for it
// with [guard.RequireStatus]; it is 0 otherwise, and there is no error, as handlers return none.
package httpadapter
