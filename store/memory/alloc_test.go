//go:build !race

package memory_test

import (
	"context"
	"testing"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

const oneTimers = 2_000_000

func TestDecisionsDoNotAllocate(t *testing.T) {
	s := memory.New(memory.OnOverflow(func(store.Key) {}))
	full := memory.New(memory.MaxKeys(1), memory.OnOverflow(func(store.Key) {}))
	generous, strict := compiled(t, limit.PerSecond(1_000_000)), compiled(t, limit.PerHour(1))
	known := store.Request{Key: key(1), Rule: generous, Cost: 1}
	refused := store.Request{Key: key(2), Rule: strict, Cost: 1}
	crowd := subjects(t, 2, limit.PerHour(1))
	mustTake(t, s, known)
	mustTake(t, s, refused)
	mustTake(t, full, crowd[0])
	mustTake(t, full, crowd[1])

	ctx := context.Background()
	var g store.Grant
	var err error
	for name, f := range map[string]func(){
		"Take, admitted":            func() { g, err = s.Take(ctx, known) },
		"Take, refused":             func() { _, err = s.Take(ctx, refused) },
		"Take, in an overflow":      func() { _, err = full.Take(ctx, crowd[1]) },
		"Peek":                      func() { _, err = s.Peek(ctx, known) },
		"Take and Settle":           func() { g, _ = s.Take(ctx, known); err = s.Settle(ctx, g.Receipt(known), 2) },
		"Reset":                     func() { err = s.Reset(ctx, known.Key) },
		"Peek of a subject unknown": func() { _, err = s.Peek(ctx, crowd[0]) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v; want none", name, n, err)
		}
	}
}

// TestNewSubjectsHardlyAllocate allows for the tables that grow: a few for hundreds of subjects.
func TestNewSubjectsHardlyAllocate(t *testing.T) {
	s, requests := memory.New(), subjects(t, 200_001, limit.PerHour(1))
	next := 0
	n := testing.AllocsPerRun(1, func() {
		for range 100_000 {
			mustTake(t, s, requests[next])
			next++
		}
	})
	if n > 1000 {
		t.Errorf("%v allocations for 100,000 new subjects, want at most 1000", n)
	}
}
