//go:build !race

package resilient

import (
	"context"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

func TestDecisionsDoNotAllocate(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	healthy := New(memory.New(), quiet(), Timeout(2*time.Hour), Fallback(memory.New(), 2))
	primary := newScripted()
	primary.set(errDown)
	degraded := New(primary, quiet(), Fallback(memory.New(), 2))
	admitted, refused := request(t, "a", limit.PerSecond(1_000_000)), request(t, "b", limit.PerDay(2))
	takeFrom(t, degraded, refused, true)
	awaitOpen(t, degraded, refused)
	before := primary.count()
	var g store.Grant
	var err error
	for name, f := range map[string]func(){
		"primary":             func() { g, err = healthy.Take(ctx, admitted) },
		"primary, Peek":       func() { _, err = healthy.Peek(ctx, admitted) },
		"fallback, admitted":  func() { g, err = degraded.Take(ctx, admitted) },
		"fallback, refused":   func() { g, err = degraded.Take(ctx, refused) },
		"fallback, Peek":      func() { _, err = degraded.Peek(ctx, admitted) },
		"fallback and Settle": func() { g, _ = degraded.Take(ctx, admitted); err = degraded.Settle(ctx, g.Receipt(admitted), 2) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v; want none", name, n, err)
		}
	}
	if got := primary.count(); got > before+1 { // a second may pass
		t.Errorf("the primary was asked %d times", got-before)
	}
}
