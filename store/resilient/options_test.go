package resilient

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	defer func() {
		text := fmt.Sprint(recover())
		for _, want := range []string{
			"resilient.New: the primary is nil", "option 2 is nil", "Timeout(0s)", "the fallback is nil", "Fallback with 0 instances",
			"the fallback is a resilient.Store", "the number of instances is nil", "OnChange(nil)", "Logger(nil)",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
	}()
	New(nil, Timeout(0), nil, Fallback(nil, 0), FallbackShare(New(memory.New()), nil), OnChange(nil), Logger(nil))
	t.Error("it did not panic")
}

func TestNoStoreWithinAStore(t *testing.T) {
	t.Parallel()
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "the primary is a resilient.Store") {
			t.Errorf("panic: %s", text)
		}
	}()
	New(New(memory.New()))
}

func TestLaterOptionsHold(t *testing.T) {
	t.Parallel()
	primary := newScripted()
	primary.set(errDown)
	s := New(primary, quiet(), Fallback(memory.New(), 1), Fallback(memory.New(), 10))
	r := request(t, "a", limit.PerDay(20))
	if g := takeFrom(t, s, r, true); g.Remaining != 1 {
		t.Errorf("%+v, want 1 of 2 remaining", g.Verdict)
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	if !store.IsLocal(New(memory.New())) {
		t.Error("over a store in memory it must be local")
	}
	if store.IsLocal(New(newScripted(), Fallback(memory.New(), 2))) {
		t.Error("over a store that is not local it must not be local")
	}
}

// TestDefaultLogger is not parallel: it sets the default logger.
func TestDefaultLogger(t *testing.T) {
	logged := new(record)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(logged, nil)))
	s := New(newScripted(), Fallback(memory.New(), 2))
	slog.SetDefault(before)
	s.primary.(*scripted).set(errPassword)
	for range 3 {
		_, err := s.Take(t.Context(), request(t, "a", limit.PerDay(20)))
		mustBe(t, err, store.ErrMisconfigured)
	}
	if got := logged.lines(); len(got) != 1 || !strings.Contains(got[0], "level=ERROR") {
		t.Errorf("the log is %q", got)
	}
}
