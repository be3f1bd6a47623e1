// Package storetest holds what every [store.RateStore] must pass: one suite for the stores of this module and for
// yours. It decides by the clock that it is given, so it never sleeps and never flakes on a slow machine.
//
// A store joins in a test of its own:
//
//	func TestContract(t *testing.T) {
//		storetest.TestRateStore(t, storetest.Config{
//			Open: func(t testing.TB, clock *storetest.Clock) store.RateStore {
//				return mystore.New(mystore.Clock(clock.Now))
//			},
//		})
//	}
//
//	func BenchmarkStore(b *testing.B) {
//		storetest.BenchmarkRateStore(b, func(b testing.TB) store.RateStore { return mystore.New() })
//	}
//
// The store must therefore be able to take the time from elsewhere, if only in tests. Nothing else of it need
// be special: many cases can share one server, since no two use the same key, not even in two runs.
//
// The cases say what a limit promises: the exact burst, exact waits, refusals that change nothing, settlements that
// correct one charge, keys that never meet. Beside them a differential run sends a long random schedule to the
// store and to the arithmetic of package limit held in a plain map, and compares every answer. A case that fails says
// which rule was violated.
package storetest
