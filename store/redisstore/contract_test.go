package redisstore

import (
	"testing"

	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.TestRateStore(t, storetest.Config{Open: func(t testing.TB, clock *storetest.Clock) store.RateStore {
		s := open(t, shared.URL())
		s.clock = clock.Now
		return s
	}})
}

func BenchmarkStore(b *testing.B) {
	storetest.BenchmarkRateStore(b, func(b testing.TB) store.RateStore { return open(b, shared.URL()) })
}
