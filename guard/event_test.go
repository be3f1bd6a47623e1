package guard

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestQuieterLetsOneASecondThrough(t *testing.T) {
	t.Parallel()
	var q quieter
	start := time.Now()
	for _, c := range []struct {
		at   time.Duration
		held int64
		ok   bool
	}{
		{0, 0, true},
		{0, 0, false},
		{999 * time.Millisecond, 0, false},
		{time.Second, 2, true},
		{1500 * time.Millisecond, 0, false},
		{10 * time.Second, 1, true},
		{11 * time.Second, 0, true},
		{5 * time.Second, 0, false}, // the clock has jumped back
	} {
		if held, ok := q.pass(start.Add(c.at)); held != c.held || ok != c.ok {
			t.Errorf("at %s: %d, %t; want %d, %t", c.at, held, ok, c.held, c.ok)
		}
	}
}

func TestQuieterCountsWhatItHoldsBack(t *testing.T) {
	t.Parallel()
	var q quieter
	var passed, told atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				if held, ok := q.pass(start.Add(time.Duration(i) * 10 * time.Millisecond)); ok {
					passed.Add(1)
					told.Add(held)
				}
			}
		})
	}
	wg.Wait()
	held, ok := q.pass(start.Add(time.Hour))
	if !ok || passed.Load() > 10 || passed.Load()+told.Load()+held != 8000 {
		t.Errorf("of 8000 lines %d passed, %d were counted, and %d are left (%t)", passed.Load(), told.Load(), held, ok)
	}
}

func TestWordsForEveryKindAndMode(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for k := Admitted; k <= ReleaseFailed; k++ {
		if k.String() == "unknown" || seen[k.String()] {
			t.Errorf("kind %d is called %q", k, k)
		}
		seen[k.String()] = true
	}
	if got := EventKind(0).String(); got != "unknown" {
		t.Errorf("the zero kind is called %q", got)
	}
	for m, want := range map[FailureMode]string{Inherit: "inherit", Open: "open", Closed: "closed"} {
		if m.String() != want {
			t.Errorf("mode %d is called %q", m, m)
		}
	}
	for r, want := range map[Route]string{{"GET", "/a"}: "GET /a", {Method: "*"}: "* (no route)"} {
		if r.String() != want {
			t.Errorf("a route is called %q", r)
		}
	}
}
