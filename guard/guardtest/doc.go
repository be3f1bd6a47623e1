// Package guardtest tests what is built upon package guard, by this module or by yours.
//
//   - [TestPolicy] holds a policy to the contract of [guard.GuardPolicy].
//   - [TestAdapter] holds an adapter for a framework to everything that an application relies on.
//   - [Exchange] stands in for an HTTP exchange where a policy is tested alone.
//   - [Spy] is a policy that does as it is told and records what it saw.
//
// The test of a policy, from beginning to end:
//
//	func TestMaintenance(t *testing.T) {
//		// What every policy must keep to.
//		guardtest.TestPolicy(t, func() guard.GuardPolicy { return &Maintenance{Closed: true} })
//
//		// What this one is for.
//		chain := new(guard.TrafficGuard).Chain(&Maintenance{Closed: true})
//		x := guardtest.NewExchange(httptest.NewRequest("GET", "/", nil))
//		rej := x.Serve(chain, handler)
//		if rej == nil || x.Response.Code != http.StatusServiceUnavailable {
//			t.Fatalf("the site is closed, but the request got %d", x.Response.Code)
//		}
//	}
//
// Both suites print, beside what went wrong, the rule that was broken. They report no false failures, but a
// suite cannot see everything: run them with the race detector.
package guardtest
