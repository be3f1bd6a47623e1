package memory_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

// TestSubjectsThatDoNotComeBackAreForgotten lets many subjects come once each, and two periods later a few requests of
// others. It is not parallel, so that the heap is its own.
func TestSubjectsThatDoNotComeBackAreForgotten(t *testing.T) {
	clock := storetest.NewClock()
	s, rule := memory.New(memory.Clock(clock.Now)), compiled(t, limit.PerMinute(10))
	take := func(i int) {
		if _, err := s.Take(context.Background(), store.Request{Key: key(i), Rule: rule, Cost: 1}); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Microsecond)
	}
	for i := range 1000 {
		take(i)
	}
	before := heap()
	for i := range oneTimers {
		take(1000 + i)
	}
	if s.Len() < oneTimers {
		t.Fatalf("%d subjects are kept, want %d", s.Len(), oneTimers)
	}
	if peak := heap(); peak < before+24*oneTimers {
		t.Fatalf("the heap grew from %d to %d bytes: too little to be measured", before, peak)
	}
	clock.Advance(2 * time.Minute)
	for i := range 100 {
		take(i)
		clock.Advance(100 * time.Millisecond)
	}
	after := heap()
	t.Logf("%d subjects: heap %d bytes before, %d after", oneTimers, before, after)
	if after > before+before/10 {
		t.Errorf("the heap was %d bytes before and is %d two periods after", before, after)
	}
	if s.Len() > 100 {
		t.Errorf("%d subjects are kept, want 100 at most", s.Len())
	}
	runtime.KeepAlive(s)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
