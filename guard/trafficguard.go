package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// DefaultBudget is the [TrafficGuard.Budget] of a TrafficGuard that names none.
const DefaultBudget = 100 * time.Millisecond

// A TrafficGuard is what an application's guarded routes have in common. The zero value is ready to use;
// one TrafficGuard may serve several adapters, so that a Gin and an Echo app answer and report alike.
//
// Set the fields before the first route is guarded and leave them alone afterwards. The methods are safe for
// concurrent use. It must not be copied.
type TrafficGuard struct {
	// FailureMode is what becomes of a request that a policy could not decide, where the policy does not
	// say it itself. Inherit, the zero value, means Open.
	FailureMode FailureMode

	// Budget is the time that the policies of one request may take together to ask other machines. What
	// was not answered by then counts as not decided. What they correct afterwards (After) has that time once more. 0 means [DefaultBudget]; a negative one means no
	// budget, so that only the stores' own deadlines hold. Decisions made in this process take no part.
	Budget time.Duration

	// Observe, if not nil, is called with every decision and every failure, synchronously, on the
	// request's own goroutine: it must be quick and safe for concurrent use. Without it failures are
	// logged through [log/slog], at most once a second for each policy of a route.
	Observe func(ctx context.Context, e Event)

	// Answer, if not nil, writes the answer to a refused request in place of the problem document. The
	// status is r.StatusCode() and the headers that the refusal needs are already set. If it writes
	// nothing the problem document is sent. Whatever it does, the handler does not run.
	Answer func(w http.ResponseWriter, req *http.Request, r *Rejection)

	mu    sync.Mutex
	named map[string]*registered
}

// Register names a policy, one of this module or your own, so that a route table that comes from elsewhere
// can refer to it with [TrafficGuard.Policy]. A policy that has no name of its own is reported under this
// one.
//
// It panics, as the mistake is in the program, if name cannot be used in headers (printable ASCII without
// quotes and backslashes, at most 64 bytes), p is nil, or another policy has the name, or the same one wrapped in
// another way. The same policy may be registered again.
func (tg *TrafficGuard) Register(name string, p GuardPolicy) {
	if err := errors.Join(checkName(name), checkPolicy(p)); err != nil {
		panic(fmt.Sprintf("guard: Register(%q): %v", name, err))
	}
	if err := tg.claim(name, &registered{p, name, true}); err != nil {
		panic(fmt.Sprintf("guard: Register(%q): %v", name, err))
	}
}

// Policy returns the policy registered as name. It panics if there is none, and lists those that there
// are: call it where routes are mounted. A value that cannot be compared comes back in a wrapper.
func (tg *TrafficGuard) Policy(name string) GuardPolicy {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	if r, ok := tg.named[name]; ok {
		if reflect.ValueOf(r.GuardPolicy).Comparable() {
			return r.GuardPolicy
		}
		return r // so that its name is found again
	}
	known := strings.Join(slices.Sorted(maps.Keys(tg.named)), ", ")
	panic(fmt.Sprintf("guard: no policy is registered as %q (known: %s)", name, known))
}

// claim gives a name to a policy, once and for all. What was registered comes before what a chain has met by the way.
func (tg *TrafficGuard) claim(name string, p *registered) error {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	held, ok := tg.named[name]
	if again, is := p.GuardPolicy.(*registered); is && again == held {
		return nil
	}
	switch {
	case ok && !same(held, p):
		return fmt.Errorf("another policy already has the name %q", name)
	case ok && !p.explicit, ok && held.explicit && identical(held, p.GuardPolicy):
		return nil
	case ok && held.explicit:
		return fmt.Errorf("the policy is registered as %q already, wrapped in another way", name)
	}
	if tg.named == nil {
		tg.named = make(map[string]*registered)
	}
	tg.named[name] = p
	return nil
}

// nameOf returns the name under which p is reported, and whether it is p's own.
func (tg *TrafficGuard) nameOf(p GuardPolicy) (name string, own bool) {
	if n, ok := find[Named](p); ok && n.PolicyName() != "" {
		return n.PolicyName(), true
	}
	if r, ok := find[*registered](p); ok {
		return r.name, false
	}
	tg.mu.Lock()
	defer tg.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(tg.named)) {
		if same(tg.named[n], p) {
			return n, false
		}
	}
	t := fmt.Sprintf("%T", bare(p))
	t = t[strings.LastIndexByte(t, '.')+1:]
	if checkName(t) != nil { // Go allows more in a name than header fields do
		return unnamed, false
	}
	return t, false
}

func (tg *TrafficGuard) budget() time.Duration {
	if tg.Budget == 0 {
		return DefaultBudget
	}
	return tg.Budget
}

func checkName(name string) error {
	if name == "" || len(name) > 64 {
		return errors.New("a policy's name has 1 to 64 bytes")
	}
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return errors.New("a policy's name is printable ASCII without quotes and backslashes")
		}
	}
	return nil
}
