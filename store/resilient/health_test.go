package resilient

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

var errPassword = fmt.Errorf("%w: WRONGPASS", store.ErrMisconfigured)

func TestMisconfiguredStaysLoud(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.primary.set(errPassword)
		for range 2 * tripAfter {
			time.Sleep(tripOver)
			g, err := b.Take(context.Background(), b.r)
			mustBe(t, err, store.ErrMisconfigured)
			if g.OK {
				t.Fatalf("%+v with an error", g)
			}
		}
		_, errPeek := b.Peek(context.Background(), b.r)
		for _, err := range []error{errPeek, b.Reset(context.Background(), b.r.Key), b.Settle(context.Background(), store.Receipt{Request: b.r}, 2)} {
			mustBe(t, err, store.ErrMisconfigured)
		}
		b.is(Closed, Misconfigured)
		if got := b.State(); got.Degraded != 0 || !errors.Is(got.Err, errPassword) {
			t.Errorf("%+v, want no decision of the fallback, and the error", got)
		}
	})
}

// TestMisconfiguredAfterAnOutage: the server came back with another password.
func TestMisconfiguredAfterAnOutage(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.trip()
		b.primary.set(errPassword)
		time.Sleep(openFor + moment)
		for range 10 {
			_, err := b.Take(context.Background(), b.r)
			mustBe(t, err, store.ErrMisconfigured)
		}
		b.is(Closed, Misconfigured)
		b.trip()
		b.is(Open, Down)
	})
}

// TestMisconfigurationThatShowsNowAndThen is one condition, not one for each request.
func TestMisconfigurationThatShowsNowAndThen(t *testing.T) {
	var changes []Change
	inBubble(t, func(b *bench) {
		for range 100 {
			b.primary.set(errPassword)
			_, err := b.Take(context.Background(), b.r)
			mustBe(t, err, store.ErrMisconfigured)
			b.primary.set(nil)
			time.Sleep(calm - moment)
			b.decide(1, false, 1, 0)
			b.is(Closed, Misconfigured)
		}
		time.Sleep(moment)
		b.decide(2, false, 2, 0)
		b.is(Closed, Serving)
		if len(changes) != 2 || changes[1].Failures != 100 {
			t.Errorf("the changes are %+v, want 2, the last with 100 failures", changes)
		}
	}, OnChange(func(c Change) { changes = append(changes, c) }))
}

func TestChanges(t *testing.T) {
	t.Parallel()
	var changes []Change
	logged := new(record)
	inBubbleNow(t, func(b *bench) {
		start := time.Now()
		b.decide(10, false, 10, 0)
		time.Sleep(time.Minute - tripOver)
		b.trip()
		b.decide(20, true, 0, 0)
		for range 3 { // more tries are no change
			time.Sleep(openFor + moment)
			b.decide(10, true, 1, 0)
		}
		b.primary.script(nil, time.Hour, true)
		time.Sleep(openFor + moment)
		b.decide(1, true, 1, DefaultTimeout)
		b.primary.set(nil)
		time.Sleep(openFor + moment)
		b.decide(1, false, 1, 0)
		back := time.Now()
		time.Sleep(time.Minute)
		b.primary.script(nil, time.Hour, true)
		b.decide(tripAfter, true, tripAfter, tripAfter*DefaultTimeout)
		again := time.Now()
		b.primary.set(errPassword)
		time.Sleep(openFor + moment)
		_, _ = b.Take(context.Background(), b.r)
		refused := time.Now()
		b.primary.set(nil)
		time.Sleep(calm)
		b.decide(1, false, 1, 0)
		over := time.Now()

		down := start.Add(time.Minute)
		want := []Change{
			{From: Serving, To: Down, At: down, Lasted: time.Minute, Err: errDown, Failures: tripAfter, Degraded: tripAfter - 1},
			{From: Down, To: Serving, At: back, Lasted: back.Sub(down), Failures: 4, Degraded: 1 + 20 + 30 + 1},
			{From: Serving, To: Slow, At: again, Lasted: again.Sub(back), Failures: tripAfter, Degraded: tripAfter - 1},
			{From: Slow, To: Misconfigured, At: refused, Lasted: openFor + moment, Err: errPassword, Degraded: 1},
			{From: Misconfigured, To: Serving, At: over, Lasted: calm, Failures: 1},
		}
		for i := range changes {
			if i == 2 && errors.Is(changes[i].Err, context.DeadlineExceeded) {
				changes[i].Err = nil
			}
			if i >= len(want) || !reflect.DeepEqual(changes[i], want[i]) {
				t.Errorf("change %d is\n%+v, want\n%+v", i, changes[i], want[i])
			}
		}
		if len(changes) != len(want) {
			t.Errorf("%d changes, want %d", len(changes), len(want))
		}
		if got := b.State(); !got.Since.Equal(over) || !errors.Is(got.Err, errPassword) || !got.At.Equal(refused) ||
			got.Degraded != tripAfter+20+30+1+tripAfter {
			t.Errorf("%+v at the end", got)
		}
	}, OnChange(func(c Change) { changes = append(changes, c) }), logged.logger())

	lines := logged.lines()
	want := []string{
		`level=WARN .* does not answer .*condition=down error="store: unavailable: connection refused"`,
		`level=INFO .* answers again.*before.failures=4 before.degraded=52`,
		`level=WARN .* does not answer .*condition=slow .*deadline`,
		`level=ERROR .*misconfigured.*WRONGPASS.*before.condition=slow`,
		`level=INFO .* answers again.*before.condition=misconfigured before.lasted=10s`,
	}
	if len(lines) != len(want) {
		t.Fatalf("the log is\n%s", strings.Join(lines, "\n"))
	}
	for i, line := range lines {
		rest := line
		for part := range strings.SplitSeq(want[i], ".*") {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Errorf("line %d is\n%s\nwant %s", i, line, want[i])
			}
			rest = after
		}
	}
}

// TestOnChangeMayUseTheStore, even in ways that bring about more changes.
func TestOnChangeMayUseTheStore(t *testing.T) {
	t.Parallel()
	r := request(t, "a", limitOfTests)
	synctest.Test(t, func(t *testing.T) {
		primary := newScripted()
		var s *Store
		var seen []Condition
		s = New(primary, quiet(), Fallback(memory.New(), 2), OnChange(func(c Change) {
			seen = append(seen, c.To)
			if c.To == Down {
				takeFrom(t, s, r, true)
				primary.set(nil)
				time.Sleep(openFor + moment)
				takeFrom(t, s, r, false)
			}
			if got := s.State().Condition; got != Serving {
				t.Errorf("the condition is %s", got)
			}
		}))
		primary.set(errDown)
		for range tripAfter {
			takeFrom(t, s, r, true)
			time.Sleep(tripOver / 4)
		}
		if want := []Condition{Down, Serving}; !reflect.DeepEqual(seen, want) {
			t.Errorf("told %v, want %v", seen, want)
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	for got, want := range map[fmt.Stringer]string{
		Closed: "closed", Open: "open", HalfOpen: "half-open",
		Serving: "serving", Down: "down", Slow: "slow", Misconfigured: "misconfigured",
	} {
		if got.String() != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
