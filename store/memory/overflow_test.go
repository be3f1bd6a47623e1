package memory_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

// A fullStore holds its 100 subjects, each of which has spent 1 of 5 an hour.
type fullStore struct {
	*memory.Store
	t       *testing.T
	clock   *storetest.Clock
	rule    *limit.Rule
	reports []store.Key
}

const places = 100

func newFullStore(t *testing.T) *fullStore {
	f := &fullStore{t: t, clock: storetest.NewClock(), rule: compiled(t, limit.PerHour(5))}
	f.Store = memory.New(memory.Clock(f.clock.Now), memory.MaxKeys(places),
		memory.OnOverflow(func(k store.Key) { f.reports = append(f.reports, k) }))
	for i := range places {
		mustTake(t, f.Store, f.request(i))
	}
	if len(f.reports) > 0 || f.Len() != places {
		t.Fatalf("%d subjects are kept and %d overflows reported, want %d and none", f.Len(), len(f.reports), places)
	}
	return f
}

func (f *fullStore) request(i int) store.Request {
	return store.Request{Key: key(i), Rule: f.rule, Cost: 1}
}

func (f *fullStore) take(r store.Request) store.Grant {
	f.t.Helper()
	g, err := f.Take(f.t.Context(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}

// admits returns how many of the requests of n new subjects pass.
func (f *fullStore) admits(n int, r store.Request) int {
	f.t.Helper()
	passed := 0
	for i := range n {
		r.Key.Subject = "new-" + key(i).Subject
		want, err := f.Peek(f.t.Context(), r)
		if err != nil {
			f.t.Fatal(err)
		}
		g := f.take(r)
		if g.Verdict != want {
			f.t.Fatalf("new subject %d: Peek said %+v, Take %+v", i, want, g.Verdict)
		}
		if g.OK {
			passed++
		}
	}
	return passed
}

func TestNewSubjectsOfAFullStoreShareABucket(t *testing.T) {
	t.Parallel()
	f := newFullStore(t)
	if got := f.admits(50, f.request(0)); got != 5 {
		t.Errorf("%d of 50 new subjects passed, want 5, the burst of one", got)
	}
	for i := range places {
		if g := mustTake(t, f.Store, f.request(i)); g.Remaining != 3 {
			t.Fatalf("subject %d, which was there before: %d remain, want 3", i, g.Remaining)
		}
	}
	if f.Len() != places {
		t.Errorf("%d subjects are kept, want %d", f.Len(), places)
	}
}

func TestOverflowBucketsStandApart(t *testing.T) {
	t.Parallel()
	f := newFullStore(t)
	for _, tc := range []struct {
		differs string
		change  func(r *store.Request)
		want    int
	}{
		{"nothing", func(*store.Request) {}, 5},
		{"the policy", func(r *store.Request) { r.Key.Policy = "another" }, 5},
		{"the route", func(r *store.Request) { r.Key.Method, r.Key.Pattern = "GET", "/" }, 5},
		{"the shape", func(r *store.Request) { r.Key.Shape = "window" }, 5},
		{"the limit", func(r *store.Request) { r.Rule = compiled(t, limit.PerHour(5).Burst(7)) }, 7},
		{"the kind only", func(r *store.Request) { r.Key.Kind = "header:X-Other" }, 0},
		{"the rule only, not its limit", func(r *store.Request) { r.Rule = compiled(t, limit.PerHour(5)) }, 0},
	} {
		r := f.request(0)
		tc.change(&r)
		if got := f.admits(20, r); got != tc.want {
			t.Errorf("what differs is %s: %d of 20 passed, want %d", tc.differs, got, tc.want)
		}
	}
}

func TestOverflowIsReportedOnceAMinute(t *testing.T) {
	t.Parallel()
	f := newFullStore(t)
	r := f.request(0)
	r.Key.Method, r.Key.Pattern, r.Key.Shape = "GET", "/", "s"
	want := r.Key
	want.Kind, want.Subject = "", ""
	for minute := range 3 {
		f.admits(20, r)
		if len(f.reports) != minute+1 || f.reports[minute] != want {
			t.Fatalf("minute %d: the reports are %+v, want %d of %+v", minute, f.reports, minute+1, want)
		}
		f.clock.Advance(59 * time.Second)
		f.admits(20, r)
		f.clock.Advance(time.Second)
	}
	f.clock.Advance(-24 * time.Hour)
	f.admits(20, r)
	if len(f.reports) != 4 {
		t.Errorf("a clock that went back a day: %d reports, want 4", len(f.reports))
	}
}

func TestOverflowIsLoggedByDefault(t *testing.T) { // not parallel: it sets the default logger
	var buffer bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&buffer, nil)))
	defer slog.SetDefault(before)
	s, rule := memory.New(memory.MaxKeys(1)), compiled(t, limit.PerHour(5))
	for i := range 3 {
		mustTake(t, s, store.Request{Key: key(i), Rule: rule, Cost: 1})
	}
	text := buffer.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") || !strings.Contains(text, "policy=api-per-user") {
		t.Errorf("the log is %q, want one warning that names the policy", text)
	}
	if strings.Contains(text, "user-") {
		t.Errorf("the log names a subject: %q", text)
	}
}

func TestReceiptsOfAnOverflowBucket(t *testing.T) {
	t.Parallel()
	f := newFullStore(t)
	settle := func(r store.Receipt, actual int64) {
		t.Helper()
		if err := f.Settle(t.Context(), r, actual); err != nil {
			t.Fatal(err)
		}
	}
	receipt := func(i int) store.Receipt {
		r := f.request(i)
		return f.take(r).Receipt(r)
	}
	first, second := receipt(1000), receipt(1001)
	settle(first, 0)
	settle(second, 3)
	if g := f.take(f.request(1002)); !g.OK || g.Remaining != 1 {
		t.Fatalf("settled to 0 and 3 of 5: %+v, want admitted and 1 remaining", g.Verdict)
	}
	if err := f.Reset(t.Context(), key(1000)); err != nil { // it has nothing of its own
		t.Fatal(err)
	}
	if got := f.admits(5, f.request(0)); got != 1 {
		t.Errorf("%d more passed, want 1", got)
	}

	// Once there is room, the receipt still belongs to the bucket and not to the subject.
	if err := f.Reset(t.Context(), key(0)); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Minute)
	if g := mustTake(t, f.Store, f.request(1000)); g.Remaining != 4 {
		t.Fatalf("a place of its own: %d remain, want 4", g.Remaining)
	}
	settle(first, 5)
	if g := mustTake(t, f.Store, f.request(1000)); g.Remaining != 3 {
		t.Errorf("a late receipt of the bucket: the subject has %d remaining, want 3", g.Remaining)
	}
}

func TestSettlingASubjectThatHasNoPlaceAnyMore(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s := memory.New(memory.Clock(clock.Now), memory.MaxKeys(1), memory.OnOverflow(func(store.Key) {}))
	rule := compiled(t, limit.PerHour(5))
	first := store.Request{Key: key(1), Rule: rule, Cost: 1}
	old := mustTake(t, s, first)
	clock.Advance(time.Hour)
	mustTake(t, s, store.Request{Key: key(2), Rule: rule, Cost: 5})
	if err := s.Settle(t.Context(), old.Receipt(first), 4); err != nil { // 3 more, which somebody must owe
		t.Fatal(err)
	}
	if g := mustTake(t, s, store.Request{Key: key(3), Rule: rule, Cost: 1}); g.Remaining != 1 {
		t.Errorf("%d remain for new subjects, want 1", g.Remaining)
	}
}

func TestPlacesAreTakenAgain(t *testing.T) {
	t.Parallel()
	f := newFullStore(t)
	f.admits(20, f.request(0))
	f.clock.Advance(12 * time.Minute) // all are full again
	for i := range places {
		if g := mustTake(t, f.Store, f.request(2000+i)); g.Remaining != 4 {
			t.Fatalf("new subject %d: %d remain, want 4 of a bucket of its own", i, g.Remaining)
		}
	}
	if f.Len() != places {
		t.Errorf("%d subjects are kept, want %d", f.Len(), places)
	}
}

func TestOverflowBucketCanBePeekedAndReset(t *testing.T) {
	t.Parallel()
	f := newFullStore(t)
	f.admits(20, f.request(0))
	shared := f.request(0)
	shared.Key.Kind, shared.Key.Subject = "overflow", ""
	if v, err := f.Peek(t.Context(), shared); err != nil || v.OK {
		t.Fatalf("Peek at the bucket: %+v, %v, want refused", v, err)
	}
	if err := f.Reset(t.Context(), shared.Key); err != nil {
		t.Fatal(err)
	}
	if got := f.admits(20, f.request(0)); got != 5 {
		t.Errorf("%d passed after the reset, want 5", got)
	}
}

func TestConcurrentOverflow(t *testing.T) {
	t.Parallel()
	const keys, burst, workers = 1000, 50, 16
	clock := storetest.NewClock()
	var reports atomic.Int64
	s := memory.New(memory.Clock(clock.Now), memory.MaxKeys(keys), memory.OnOverflow(func(store.Key) { reports.Add(1) }))
	rule := compiled(t, limit.PerHour(burst))
	var passed atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range 500 {
				g, err := s.Take(context.Background(), store.Request{Key: key(w*500 + i), Rule: rule, Cost: 1})
				if err != nil {
					t.Error(err)
				}
				if g.OK {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := passed.Load(); got != keys+burst || s.Len() != keys || reports.Load() != 1 {
		t.Errorf("%d passed, %d are kept, %d reports; want %d, %d, 1", got, s.Len(), reports.Load(), keys+burst, keys)
	}
}
