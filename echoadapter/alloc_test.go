//go:build !race

package echoadapter_test

import (
	"testing"

	"github.com/trafficguard-go/trafficguard/echoadapter"
	"github.com/trafficguard-go/trafficguard/guard"
)

func TestAllocations(t *testing.T) {
	bare := testing.AllocsPerRun(1000, serving(app()))
	for name, c := range map[string]struct {
		policies []guard.GuardPolicy
		more     float64
	}{
		"one":   {[]guard.GuardPolicy{&local{}}, 1},
		"three": {[]guard.GuardPolicy{&local{}, &local{}, guard.FailClosed(&local{})}, 1},
		"quota": {[]guard.GuardPolicy{&local{quota: quota}}, 3},
	} {
		if got := testing.AllocsPerRun(1000, serving(app(echoadapter.With(c.policies...)))); got != bare+c.more {
			t.Errorf("%s: %v allocations, want %v for the bare route and %v more", name, got, bare, c.more)
		}
	}
}
