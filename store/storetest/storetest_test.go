package storetest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

// flawVariable names the flaw of the plain store in a process that TestFlawsAreFound starts.
const flawVariable = "STORETEST_FLAW"

// TestPlainStore runs the suite on the simplest store that is right, or in a process of TestFlawsAreFound on one that is
// wrong.
func TestPlainStore(t *testing.T) {
	t.Parallel()
	flaw := os.Getenv(flawVariable)
	storetest.TestRateStore(t, storetest.Config{
		Open: func(_ testing.TB, clock *storetest.Clock) store.RateStore {
			return &plain{flaw: flaw, clock: clock, states: make(map[string]limit.State)}
		},
		Decisions: 3000,
	})
}

// TestFlawsAreFound has the suite judge stores with one flaw each, in processes of their own since it must fail there.
func TestFlawsAreFound(t *testing.T) {
	t.Parallel()
	for flaw, cases := range map[string][]string{
		"refusals are charged":            {"exact_wait", "refusals_change_nothing", "differential"},
		"whole milliseconds":              {"exact_wait", "uneven_periods", "differential"},
		"the wait is the period":          {"exact_wait", "remaining_and_full"},
		"one more than the burst":         {"exact_burst", "concurrent_burst"},
		"reads, thinks and writes":        {"concurrent_burst"},
		"Peek charges":                    {"peek", "differential"},
		"cost 0 passes":                   {"costs_out_of_range"},
		"cost above the burst is charged": {"cost_above_the_burst"},
		"parts are glued":                 {"keys_never_meet"},
		"kinds are ignored":               {"keys_never_meet"},
		"long subjects are cut":           {"keys_never_meet"},
		"subjects are made valid UTF-8":   {"keys_never_meet"},
		"Reset does nothing":              {"reset", "the_same_key"},
		"Settle does nothing":             {"settle_down", "settle_up"},
		"Settle refunds what time did":    {"settle_late", "settle_the_one_charge"},
		"Settle stops at the burst":       {"settle_past_the_burst"},
		"Settle heeds the context":        {"settle_without_a_client"},
		"Settle takes negative costs":     {"settle_out_of_range"},
		"Settle loses what is concurrent": {"concurrent_settlements"},
		"refusals never mend a state":     {"smaller_rule", "clock_goes_back"},
		"a change of limit forgets":       {"rule_change"},
		"states end after a day":          {"low_rates"},
		"receipts are those of the burst": {"differential"},
		"instants end in 2038":            {"later_years"},
		"a bucket is never full again":    {"forgotten"},
	} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			out := judge(t, flaw)
			for _, name := range cases {
				if !strings.Contains(out, "--- FAIL: TestPlainStore/"+name+" ") {
					t.Errorf("case %q does not find it; the suite says\n%s", name, out)
				}
			}
			if !strings.Contains(out, "The rule: ") {
				t.Errorf("the suite does not say which rule is violated:\n%s", out)
			}
		})
	}
}

// judge returns what the suite says of a store with that flaw.
func judge(t *testing.T, flaw string) string {
	t.Helper()
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPlainStore$")
	test.Env = append(os.Environ(), flawVariable+"="+flaw)
	out, err := test.CombinedOutput()
	if err == nil {
		t.Fatalf("the suite finds nothing")
	}
	return string(out)
}

// plain is a store with nothing but a map and a mutex, and perhaps a flaw.
type plain struct {
	flaw   string
	clock  *storetest.Clock
	mu     sync.Mutex
	states map[string]limit.State
	limits sync.Map // of the flaw that is about their change
}

func (p *plain) now() int64 {
	now := p.clock.Now().UnixMicro()
	if p.flaw == "whole milliseconds" {
		return now / 1000 * 1000
	}
	return now
}

func (p *plain) key(k store.Key) string {
	switch p.flaw {
	case "parts are glued":
		return strings.Join([]string{k.Policy, k.Method, k.Pattern, k.Shape, k.Kind, k.Subject}, ":")
	case "kinds are ignored":
		k.Kind = ""
	case "long subjects are cut":
		k.Subject = k.Subject[:min(len(k.Subject), 1000)]
	case "subjects are made valid UTF-8":
		k.Subject = strings.ToValidUTF8(k.Subject, "\ufffd")
	}
	return fmt.Sprintf("%q", []string{k.Policy, k.Method, k.Pattern, k.Shape, k.Kind, k.Subject})
}

func (p *plain) load(r store.Request) limit.State {
	s := p.states[p.key(r.Key)]
	switch p.flaw {
	case "a change of limit forgets":
		if before, ok := p.limits.Swap(r.Key, r.Rule.Limit()); ok && before != r.Rule.Limit() {
			return limit.State{}
		}
	case "states end after a day":
		s.At = min(s.At, p.now()+(24*time.Hour).Microseconds())
	case "instants end in 2038":
		s.At = min(s.At, 1<<31*1_000_000)
	case "a bucket is never full again":
		if now := p.now(); s.At != 0 && s.At <= now {
			s.At = now + r.Rule.Window().Microseconds()/2
		}
	}
	return s
}

func (p *plain) Take(_ context.Context, r store.Request) (store.Grant, error) {
	if r.Cost < 1 {
		if p.flaw == "cost 0 passes" && r.Cost == 0 {
			return store.Grant{Verdict: limit.Verdict{OK: true}}, nil
		}
		return store.Grant{}, limit.ErrCost
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.load(r)
	if p.flaw == "reads, thinks and writes" {
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	s, v := r.Rule.Take(before, p.now(), r.Cost)
	if !v.OK {
		s, v = p.refused(r, before, s, v)
	}
	p.states[p.key(r.Key)] = s
	g := store.Grant{Verdict: v, At: s}
	if p.flaw == "receipts are those of the burst" {
		g.At = r.Rule.StateAt(p.now(), r.Rule.Capacity())
	}
	return g, nil
}

// refused has the flaws that are about refusals.
func (p *plain) refused(r store.Request, before, s limit.State, v limit.Verdict) (limit.State, limit.Verdict) {
	switch p.flaw {
	case "refusals never mend a state":
		return before, v
	case "refusals are charged":
		s.At++
	case "the wait is the period":
		v.Wait = r.Rule.Window()
	case "one more than the burst":
		if r.Cost == 1 && v.Full == r.Rule.Window() {
			s.At, v = s.At+1, limit.Verdict{OK: true, Full: v.Full}
		}
	case "cost above the burst is charged":
		if v.Wait == limit.Never {
			s = r.Rule.StateAt(p.now(), r.Rule.Capacity())
		}
	}
	return s, v
}

func (p *plain) Peek(_ context.Context, r store.Request) (limit.Verdict, error) {
	if r.Cost < 1 {
		return limit.Verdict{}, limit.ErrCost
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, v := r.Rule.Take(p.load(r), p.now(), r.Cost)
	if p.flaw == "Peek charges" {
		p.states[p.key(r.Key)] = s
	}
	return v, nil
}

func (p *plain) Reset(_ context.Context, k store.Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flaw != "Reset does nothing" {
		delete(p.states, p.key(k))
	}
	return nil
}

func (p *plain) Settle(ctx context.Context, r store.Receipt, actual int64) error {
	switch {
	case p.flaw == "Settle does nothing":
		return nil
	case p.flaw == "Settle heeds the context" && ctx.Err() != nil:
		return ctx.Err()
	case actual < 0 && p.flaw != "Settle takes negative costs":
		return limit.ErrCost
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, now := p.load(r.Request), p.now()
	switch p.flaw {
	case "Settle refunds what time did":
		r.At.At += r.Rule.Window().Microseconds()
	case "Settle stops at the burst":
		actual = min(actual, r.Rule.Burst())
	case "Settle loses what is concurrent":
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	p.states[p.key(r.Key)] = r.Rule.Settle(before, now, r.At, r.Cost, max(actual, 0))
	return nil
}
