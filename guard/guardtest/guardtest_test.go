package guardtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

// slots is a concurrency limit of n, with whatever fault.
type slots struct {
	guard.Base
	n     int64
	taken atomic.Int64
	fault string
	kept  atomic.Value
}

var errStillRunning = errors.New("the handler never ran")

func (s *slots) PolicyName() string {
	if s.fault == "name" {
		return `my "pool"`
	}
	return "pool"
}

func (s *slots) Supports(guard.Exchange) bool {
	if s.fault == "supports" {
		s.taken.Add(1)
	}
	return true
}

func (s *slots) Before(_ context.Context, x guard.Exchange) (guard.Decision, error) {
	switch s.fault {
	case "request":
		x.Request().Header.Set("X-Seen", "yes")
	case "form":
		_ = x.Request().ParseForm()
		_ = x.Request().FormValue("user")
	case "body":
		_, _ = x.Request().Body.Read(make([]byte, 3))
	}
	if s.taken.Add(1) > s.n {
		s.taken.Add(-1)
		return guard.Decision{Rejection: s.rejection(x)}, nil
	}
	if s.fault == "exchange" {
		return guard.Decision{State: x}, nil
	}
	return guard.Decision{}, nil
}

func (s *slots) rejection(x guard.Exchange) *guard.Rejection {
	rej := &guard.Rejection{Code: guard.ConcurrencyLimitHit}
	switch s.fault {
	case "refusal status":
		rej.Status = http.StatusOK
	case "refusal detail":
		rej.Detail = "too many requests from " + x.Request().RemoteAddr
	}
	return rej
}

func (s *slots) After(ctx context.Context, _ guard.Exchange, d guard.Decision, o guard.Outcome) error {
	switch {
	case s.fault == "ended context" && ctx.Err() != nil:
		return nil
	case s.fault == "outcomes" && !o.Ran:
		return errStillRunning
	case s.fault == "exchange":
		s.kept.Store(d.State.(guard.Exchange).PathParam("id"))
	}
	s.taken.Add(-1)
	return nil
}

func TestGoodPolicies(t *testing.T) {
	t.Parallel()
	for name, newPolicy := range map[string]func() guard.GuardPolicy{
		"spy":      func() guard.GuardPolicy { return &guardtest.Spy{} },
		"refusing": func() guard.GuardPolicy { return &slots{n: 0} },
		"one slot": func() guard.GuardPolicy { return &slots{n: 1} },
		"failing":  func() guard.GuardPolicy { return guard.FailClosed(&guardtest.Spy{Err: errStillRunning}) },
		"ignoring": func() guard.GuardPolicy { return &guardtest.Spy{Ignore: true} },
	} {
		t.Run(name, func(t *testing.T) { guardtest.TestPolicy(t, newPolicy) })
	}
}

// faultKey names the broken policy or adapter that a process of this test is to try.
const faultKey = "GUARDTEST_FAULT"

// TestSuitesFindFaults runs the suites on things that are broken in one respect each, in a process of their own,
// since they have to fail.
func TestSuitesFindFaults(t *testing.T) {
	t.Parallel()
	for fault, rule := range map[string]string{
		"policy/name":           "chain",
		"policy/supports":       "supports",
		"policy/request":        "request",
		"policy/form":           "request",
		"policy/body":           "body",
		"policy/outcomes":       "outcomes",
		"policy/ended context":  "ended_context",
		"policy/exchange":       "exchange",
		"policy/refusal status": "refusal",
		"policy/refusal detail": "refusal",

		"adapter/goes on":        "refused",
		"adapter/no answer":      "refused_answer",
		"adapter/clears headers": "headers_set_before",
		"adapter/answers twice":  "custom_answer",
		"adapter/recovers":       "panic",
		"adapter/stale request":  "context",
		"adapter/own method":     "route_of_any_method",
		"adapter/raw path":       "route",
		"adapter/no parameters":  "parameters",
		"adapter/no values":      "values",
		"adapter/no status":      "status_required",
		"adapter/bare writer":    "flush",
		"adapter/shared state":   "concurrent",
		"adapter/wrong order":    "order",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOneFault$", "-test.v")
			cmd.Env = append(os.Environ(), faultKey+"="+fault)
			out, err := cmd.CombinedOutput()
			if _, failed := errors.AsType[*exec.ExitError](err); !failed {
				t.Fatalf("the suite passed (%v)", err)
			}
			if !strings.Contains(string(out), fmt.Sprintf("--- FAIL: TestOneFault/%s (", rule)) {
				t.Errorf("the case %s passed:\n%s", rule, out)
			}
			if !strings.Contains(string(out), "the rule: ") {
				t.Errorf("the rule is not explained:\n%s", out)
			}
		})
	}
}

// TestOneFault is what the processes of TestSuitesFindFaults run. Without a fault it tries what is sound.
func TestOneFault(t *testing.T) {
	fault := os.Getenv(faultKey)
	if name, ok := strings.CutPrefix(fault, "policy/"); ok {
		guardtest.TestPolicy(t, func() guard.GuardPolicy { return &slots{n: 10, fault: name} })
		return
	}
	guardtest.TestAdapter(t, adapter{strings.TrimPrefix(fault, "adapter/")}.describe())
}
