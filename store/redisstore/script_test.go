package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

// extremes are limits at the edges of what can be compiled: denominators up to 2^31-1, capacities near 2^52, debts
// bounded by a century and by 2^53.
func extremes() []limit.Limit {
	return []limit.Limit{
		limit.PerMinute(100),
		limit.PerMinute(7),
		limit.PerSecond(1_000_000_000),
		limit.PerSecond(999_999_937),
		limit.Per(999_999_937, 24*time.Hour).Burst(999_999_999),
		limit.Per(999_999_937, 7*time.Second+time.Nanosecond).Burst(13),
		limit.Per(2, 3*time.Nanosecond).Burst(1_000_000_000),
		limit.Per(1_000_000_000, 366*24*time.Hour),
		limit.Per(3, 366*24*time.Hour).Burst(29),
		limit.Every(time.Nanosecond).Burst(1_000_000_000),
		limit.Every(366 * 24 * time.Hour).Burst(10),
		limit.Every(366*24*time.Hour - time.Nanosecond).Burst(9),
	}
}

// TestScriptsEqualArithmetic runs one random schedule through Redis and through package limit: every answer and every
// state must be the same to the last unit, also where one limit reads what another has written.
func TestScriptsEqualArithmetic(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	clock := storetest.NewClock()
	s := open(t, shared.URL())
	s.clock = clock.Now
	ctx := context.Background()

	var rules []*limit.Rule
	widest := int64(0)
	for _, l := range extremes() {
		r := compile(t, l)
		if rules = append(rules, r); r.Denominator() > widest {
			widest = r.Denominator()
		}
	}
	for _, r := range rules[:4] { // limits whose subjects stand under others at other times
		rules = append(rules, r.Beside(rules...))
	}
	if widest < 1_900_000_000 {
		t.Fatalf("the widest denominator is %d: the extremes are no extremes", widest)
	}

	over := 0 // settlements past the burst
	for n, r := range rules {
		key := request(t, fmt.Sprint(seed, n), r.Limit()).Key
		var state limit.State
		var receipts []store.Receipt
		for i := range 1500 {
			where := fmt.Sprintf("seed %d, %s, step %d", seed, r.Limit(), i)
			now := clock.Now().UnixMicro()
			used := r
			if random.IntN(20) == 0 {
				used = rules[random.IntN(len(rules))]
			}
			cost := 1 + random.Int64N(used.Burst())
			switch action := random.IntN(10); {
			case action < 5:
				after, want := used.Take(state, now, cost)
				g, err := s.Take(ctx, store.Request{Key: key, Rule: used, Cost: cost})
				if err != nil || g.Verdict != want {
					t.Fatalf("%s: Take(%d) at %d from %+v: %+v, %v; want %+v", where, cost, now, state, g.Verdict, err, want)
				}
				state = after
				if g.OK {
					if g.At != after {
						t.Fatalf("%s: the receipt says %+v, want %+v", where, g.At, after)
					}
					receipts = append(receipts, g.Receipt(store.Request{Key: key, Rule: used, Cost: cost}))
				}
			case action < 7:
				_, want := used.Take(state, now, cost)
				v, err := s.Peek(ctx, store.Request{Key: key, Rule: used, Cost: cost})
				if err != nil || v != want {
					t.Fatalf("%s: Peek(%d) at %d from %+v: %+v, %v; want %+v", where, cost, now, state, v, err, want)
				}
			case action < 9 && len(receipts) > 0:
				last := len(receipts) - 1
				rc := receipts[last]
				receipts = receipts[:last]
				actual := random.Int64N(rc.Cost + 1)
				if random.IntN(3) == 0 {
					actual = rc.Cost + random.Int64N(1<<(1+random.IntN(34)))
				}
				if random.IntN(20) == 0 {
					actual = math.MaxInt64 - random.Int64N(1<<62)
				}
				state = rc.Rule.Settle(state, now, rc.At, rc.Cost, actual)
				refund := actual < rc.Cost && rc.Rule.Debt(limit.State{At: rc.At.At, Frac: rc.At.Frac, Over: true}, now) > 0
				if refund && rc.Rule.Debt(state, now) == 0 {
					state = limit.State{} // the key is gone, so a clock that goes back finds none
				}
				if err := s.Settle(ctx, rc, actual); err != nil {
					t.Fatalf("%s: Settle: %v", where, err)
				}
				if state.Over {
					over++
				}
				// A century of debt would leave nothing else to see.
				if state.Over && random.IntN(2) == 0 {
					clock.Advance(time.Duration(min(state.At-now+random.Int64N(1000), 1<<52)) * time.Microsecond)
				}
				if clock.Now().Year() > 2150 {
					clock.Set(time.UnixMicro(now))
					state = limit.State{}
					if err := s.Reset(ctx, key); err != nil {
						t.Fatalf("%s: Reset: %v", where, err)
					}
				}
			default:
				steps := []time.Duration{0, time.Microsecond, r.Window() / 100, r.Window(), r.Window()*2 + time.Microsecond, -r.Window() / 10}
				clock.Advance(steps[random.IntN(len(steps))])
				if clock.Now().Year() > 2100 {
					clock.Set(time.UnixMicro(now))
				}
			}
			if got, want := stored(t, s, key), text(state); got != want {
				t.Fatalf("%s: at %d %q is stored, want %q", where, now, got, want)
			}
		}
	}
	if over < 100 {
		t.Errorf("seed %d: only %d settlements went past the burst", seed, over)
	}
}

// text returns what Redis keeps of a state, "" for nothing.
func text(s limit.State) string {
	if s == (limit.State{}) {
		return ""
	}
	sign := ""
	if s.Over {
		sign = "-"
	}
	return fmt.Sprintf("%s%016d%03d", sign, s.At, s.Frac)
}

func stored(t *testing.T, s *Store, k store.Key) string {
	t.Helper()
	v, err := s.servers.(*single).client.Get(context.Background(), keyText(s.namespace, k)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return v
}

// TestClockInThePast: a machine without a clock of its own starts in 1970.
func TestClockInThePast(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, now := range []time.Time{
		time.UnixMicro(1), time.Unix(86_400, 0), time.Date(1999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		time.UnixMicro(999_999_999_999_999), time.UnixMicro(1_000_000_000_000_000),
	} {
		clock := storetest.NewClock()
		clock.Set(now)
		s := open(t, shared.URL())
		s.clock = clock.Now
		r := request(t, now.String(), limit.PerMinute(7))
		var state limit.State
		var g store.Grant
		for i := range 9 {
			after, want := r.Rule.Take(state, clock.Now().UnixMicro(), 1)
			last := take(t, s, r)
			if last.Verdict != want {
				t.Fatalf("%s: request %d: %+v, want %+v", now, i+1, last.Verdict, want)
			}
			if last.OK {
				g = last
			}
			state = after
			if got := stored(t, s, r.Key); got != text(state) {
				t.Fatalf("%s: %q is stored, want %q", now, got, text(state))
			}
			clock.Advance(time.Millisecond)
		}
		for _, actual := range []int64{100, 0} {
			if err := s.Settle(ctx, g.Receipt(r), actual); err != nil {
				t.Fatalf("%s: Settle: %v", now, err)
			}
			state = r.Rule.Settle(state, clock.Now().UnixMicro(), g.At, 1, actual)
			if got := stored(t, s, r.Key); got != text(state) {
				t.Errorf("%s: settled to %d: %q is stored, want %q", now, actual, got, text(state))
			}
		}
	}
}

// TestClockOutOfRange: where the numbers end, nothing is decided, and that is told.
func TestClockOutOfRange(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := request(t, "a", limit.PerMinute(7))
	window := r.Rule.Window().Microseconds()
	receipt := store.Grant{At: r.Rule.StateAt(1_700_000_000_000_000, 1)}.Receipt(r)
	for _, now := range []int64{-62_135_596_800_000_000, -1, 0, limit.Exact - window, limit.Exact, 10_000_000_000_000_000, 20_000_000_000_000_000} {
		logged := new(record)
		s := open(t, shared.URL(), logged.logger())
		s.clock = func() time.Time { return time.UnixMicro(now) }
		_, err := s.Take(ctx, r)
		mustBe(t, err, store.ErrMisconfigured)
		_, err = s.Peek(ctx, r)
		mustBe(t, err, store.ErrMisconfigured)
		mustBe(t, s.Settle(ctx, receipt, 5), store.ErrMisconfigured)
		if got := stored(t, s, r.Key); got != "" || logged.count("the time is out of range") != 1 {
			t.Errorf("%d: %q is stored, logged:\n%s", now, got, logged.text.String())
		}
	}

	s := open(t, shared.URL())
	s.clock = func() time.Time { return time.UnixMicro(limit.Exact - window - 1) }
	g := take(t, s, r)
	if !g.OK {
		t.Fatal("the last microsecond is not decided")
	}
	before := stored(t, s, r.Key)
	mustBe(t, s.Settle(ctx, g.Receipt(r), 1000), store.ErrMisconfigured) // it would owe beyond the end
	if got := stored(t, s, r.Key); got != before {
		t.Errorf("%q is stored, want %q", got, before)
	}
}

// TestDebtBeyondItsBound: a debt that the clock has put out of reach is moved by what is charged, up to a century.
func TestDebtBeyondItsBound(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s := open(t, shared.URL())
	s.clock = clock.Now
	r := request(t, "a", limit.PerMinute(7))
	g := take(t, s, r)
	state := g.At
	for i, actual := range []int64{math.MaxInt64, math.MaxInt64, 0, math.MaxInt64, 0, 100, math.MaxInt64} {
		if err := s.Settle(context.Background(), g.Receipt(r), actual); err != nil {
			t.Fatal(err)
		}
		state = r.Rule.Settle(state, clock.Now().UnixMicro(), g.At, r.Cost, actual)
		if got := stored(t, s, r.Key); got != text(state) {
			t.Errorf("settlement %d to %d: %q is stored, want %q", i, actual, got, text(state))
		}
		clock.Advance(-time.Hour)
	}
}

func (s *Store) keyOf(r store.Request) string { return keyText(s.namespace, r.Key) }

func ttl(t *testing.T, key string) time.Duration {
	t.Helper()
	ms, err := strconv.Atoi(shared.CLI("pttl", key))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// TestKeysExpireWhenFull covers limits that last from less than a second to a month: too short a life would forget
// charges, none would keep keys for ever.
func TestKeysExpireWhenFull(t *testing.T) {
	t.Parallel()
	s := open(t, shared.URL())
	for _, l := range []limit.Limit{
		limit.PerSecond(3).Burst(1), limit.PerSecond(2), limit.Per(3, 1500*time.Millisecond), limit.PerMinute(7),
		limit.Every(333_333 * time.Microsecond), limit.Per(3, 10*time.Second), limit.PerDay(1), limit.Every(30 * 24 * time.Hour),
	} {
		r := request(t, l.String(), l)
		r.Cost = r.Rule.Burst()
		before := time.Now()
		g := take(t, s, r)
		got := ttl(t, s.keyOf(r))
		since := time.Since(before)
		if least, most := g.Full-since-time.Millisecond, g.Full+2*time.Millisecond; got < least || got > most {
			t.Errorf("%s: full in %s, the key lives for %s", l, g.Full, got)
		}
	}
}

// TestShortestLife is the case of a time to live that would be rounded to zero.
func TestShortestLife(t *testing.T) {
	t.Parallel()
	s := open(t, shared.URL())
	r := request(t, "a", limit.PerSecond(1000).Burst(1))
	if !take(t, s, r).OK {
		t.Fatal("the first request was refused")
	}
	r = request(t, "b", limit.PerSecond(1_000_000_000))
	if !take(t, s, r).OK {
		t.Fatal("the first request was refused")
	}
}

// TestSettlementKeepsLife: a settlement sets the time to live that fits the new debt, and no key remains without debt.
func TestSettlementKeepsLife(t *testing.T) {
	t.Parallel()
	s := open(t, shared.URL())
	ctx := context.Background()
	r := request(t, "a", limit.PerMinute(60))
	r.Cost = 10
	first, second := take(t, s, r), take(t, s, r)
	for _, step := range []struct {
		receipt store.Receipt
		actual  int64
		most    time.Duration // of life
	}{{first.Receipt(r), 3, 13 * time.Second}, {second.Receipt(r), 100, 103 * time.Second}} {
		if err := s.Settle(ctx, step.receipt, step.actual); err != nil {
			t.Fatal(err)
		}
		if got := ttl(t, s.keyOf(r)); got > step.most+2*time.Millisecond || got < step.most-5*time.Second {
			t.Errorf("settled to %d: the key lives for %s, want %s", step.actual, got, step.most)
		}
	}

	r = request(t, "b", limit.PerMinute(60))
	g := take(t, s, r)
	if err := s.Settle(ctx, g.Receipt(r), 0); err != nil {
		t.Fatal(err)
	}
	if got := shared.CLI("exists", s.keyOf(r)); got != "0" {
		t.Errorf("a subject without debt has a key")
	}
	if err := s.Settle(ctx, g.Receipt(r), 0); err != nil {
		t.Fatal(err)
	}
	if got := shared.CLI("exists", s.keyOf(r)); got != "0" {
		t.Errorf("a refund without debt made a key")
	}
}

func TestPersistedKeyHeals(t *testing.T) {
	t.Parallel()
	s := open(t, shared.URL())
	r := request(t, "a", limit.PerMinute(10))
	take(t, s, r)
	if got := shared.CLI("persist", s.keyOf(r)); got != "1" {
		t.Fatalf("persist: %s", got)
	}
	if !take(t, s, r).OK {
		t.Fatal("refused")
	}
	if got := ttl(t, s.keyOf(r)); got <= 0 {
		t.Errorf("the key lives for %s after a request", got)
	}
}

// TestStoredText: usual limits are kept as an integer, in no memory beyond the key's, and no number loses digits.
func TestStoredText(t *testing.T) {
	t.Parallel()
	s := open(t, shared.URL())
	ctx := context.Background()
	for _, l := range []limit.Limit{limit.PerSecond(10), limit.PerMinute(100), limit.PerMinute(7), limit.PerHour(1000), limit.PerDay(10_000)} {
		r := request(t, l.String(), l)
		g := take(t, s, r)
		if got := shared.CLI("object", "encoding", s.keyOf(r)); got != "int" {
			t.Errorf("%s: kept as %s, want int", l, got)
		}
		if err := s.Settle(ctx, g.Receipt(r), 2*r.Rule.Burst()); err != nil {
			t.Fatal(err)
		}
		if got := shared.CLI("object", "encoding", s.keyOf(r)); got != "int" {
			t.Errorf("%s in debt: kept as %s, want int", l, got)
		}
	}
	form := regexp.MustCompile(`^-?[0-9]{19,26}$`)
	for i, l := range extremes() {
		r := request(t, fmt.Sprint("extreme ", i), l)
		r.Cost = r.Rule.Burst()
		g := take(t, s, r)
		if err := s.Settle(ctx, g.Receipt(r), r.Cost+1_000_000_000); err != nil {
			t.Fatal(err)
		}
		if got := shared.CLI("get", s.keyOf(r)); !form.MatchString(got) {
			t.Errorf("%s: stored %q", l, got)
		}
	}
}

// TestWrongValue: what somebody else has put under a key is an error, and no limit without a sound.
func TestWrongValue(t *testing.T) {
	t.Parallel()
	s := open(t, shared.URL())
	other := request(t, "other", limit.PerMinute(1000))
	for i, put := range [][]string{{"lpush"}, {"set"}} {
		r := request(t, fmt.Sprint(i), limit.PerMinute(10))
		shared.CLI(put[0], s.keyOf(r), "hello")
		for range 2 * tripAfter {
			_, err := s.Take(context.Background(), r)
			mustBe(t, err, store.ErrMisconfigured)
			if strings.Contains(err.Error(), s.keyOf(r)) {
				t.Errorf("the error tells the key: %v", err)
			}
		}
		if !take(t, s, other).OK {
			t.Error("a broken key of one subject keeps others from their answer")
		}
	}
}
