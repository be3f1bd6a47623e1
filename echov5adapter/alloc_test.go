//go:build !race

package echov5adapter_test

import (
	"testing"

	"github.com/trafficguard-go/trafficguard/echov5adapter"
	"github.com/trafficguard-go/trafficguard/guard"
)

func TestAllocations(t *testing.T) {
	bare := testing.AllocsPerRun(1000, serving(app()))
	for name, c := range map[string]struct {
		policies []guard.GuardPolicy
		more     float64
	}{
		"one":   {[]guard.GuardPolicy{&local{}}, 0},
		"three": {[]guard.GuardPolicy{&local{}, &local{}, guard.FailClosed(&local{})}, 0},
		"quota": {[]guard.GuardPolicy{&local{quota: quota}}, 2},
	} {
		if got := testing.AllocsPerRun(1000, serving(app(echov5adapter.With(c.policies...)))); got != bare+c.more {
			t.Errorf("%s: %v allocations, want %v for the bare route and %v more", name, got, bare, c.more)
		}
	}
	nested := serving(app(echov5adapter.With(&local{}), echov5adapter.With(&local{})))
	if got := testing.AllocsPerRun(1000, nested); got != bare {
		t.Errorf("two guards: %v allocations, want %v", got, bare)
	}
}
