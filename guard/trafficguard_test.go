package guard_test

import (
	"context"
	"sync"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

// funcPolicy cannot be compared.
type funcPolicy struct {
	guard.Base
	f func()
}

// anyPolicy can be compared or not, depending on what is in it.
type anyPolicy struct {
	guard.Base
	v any
}

// valuePolicy is equal to every other one with the same n.
type valuePolicy struct {
	guard.Base
	n int
}

// Größe has a name that a header field cannot have.
type Größe struct{ guard.Base }

func TestRegisterAndPolicy(t *testing.T) {
	t.Parallel()
	tg, spy := new(guard.TrafficGuard), &guardtest.Spy{}
	tg.Register("api", spy)
	tg.Register("api", spy)
	tg.Register("same thing", spy)
	if got := tg.Policy("same thing"); got != guard.GuardPolicy(spy) {
		t.Errorf("the policy is %v", got)
	}
}

func TestRegisterPanics(t *testing.T) {
	t.Parallel()
	var missing *guardtest.Spy
	for _, c := range []struct {
		name string
		p    guard.GuardPolicy
		want string
	}{
		{"", &guardtest.Spy{}, `guard: Register(""): a policy's name has 1 to 64 bytes`},
		{"größe", &guardtest.Spy{}, `guard: Register("größe"): a policy's name is printable ASCII without quotes and backslashes`},
		{"api", nil, `guard: Register("api"): the policy is nil`},
		{"api", missing, `guard: Register("api"): the policy is a nil pointer`},
		{"a\nb", nil, "guard: Register(\"a\\nb\"): a policy's name is printable ASCII without quotes and backslashes\nthe policy is nil"},
		{"taken", &guardtest.Spy{}, `guard: Register("taken"): another policy already has the name "taken"`},
		{"func", funcPolicy{f: func() {}}, `guard: Register("func"): another policy already has the name "func"`},
		{"any", anyPolicy{v: []int{1}}, `guard: Register("any"): another policy already has the name "any"`},
	} {
		tg := new(guard.TrafficGuard)
		tg.Register("taken", &guardtest.Spy{})
		tg.Register("func", funcPolicy{f: func() {}})
		tg.Register("any", anyPolicy{v: []int{1}})
		if got := recovered(func() { tg.Register(c.name, c.p) }); got != c.want {
			t.Errorf("got  %v\nwant %s", got, c.want)
		}
	}
}

func TestUnknownPolicyPanicsWithTheKnownOnes(t *testing.T) {
	t.Parallel()
	tg := new(guard.TrafficGuard)
	if got, want := recovered(func() { tg.Policy("api") }), `guard: no policy is registered as "api" (known: )`; got != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	tg.Register("search", &guardtest.Spy{})
	tg.Register("login", &guardtest.Spy{})
	if got, want := recovered(func() { tg.Policy("api") }), `guard: no policy is registered as "api" (known: login, search)`; got != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestOneNameForEqualValues(t *testing.T) {
	t.Parallel()
	tg := new(guard.TrafficGuard)
	tg.Register("seven", valuePolicy{n: 7})
	tg.Register("seven", valuePolicy{n: 7})
	if recovered(func() { tg.Register("seven", valuePolicy{n: 8}) }) == nil {
		t.Error("two different values have one name")
	}
}

func TestReportedName(t *testing.T) {
	t.Parallel()
	var got string
	tg := &guard.TrafficGuard{Observe: func(_ context.Context, e guard.Event) { got = e.Policy }}
	registered, both := &guardtest.Spy{}, &guardtest.Spy{Name: "own"}
	tg.Register("registered", registered)
	tg.Register("other", both)
	for _, c := range []struct {
		p    guard.GuardPolicy
		want string
	}{
		{&guardtest.Spy{Name: "mine"}, "mine"},
		{registered, "registered"},
		{guard.FailClosed(registered), "registered"},
		{both, "own"},
		{&guardtest.Spy{}, "Spy"},
		{valuePolicy{}, "valuePolicy"},
		{funcPolicy{}, "funcPolicy"},
		{Größe{}, "default"},
	} {
		_, _ = tg.Chain(c.p).Do(exchange(), func() (int, error) { return 0, nil })
		if got != c.want {
			t.Errorf("%T is reported as %q, not %q", c.p, got, c.want)
		}
	}
}

func TestConcurrentMounting(t *testing.T) {
	t.Parallel()
	tg, spy := new(guard.TrafficGuard), &guardtest.Spy{Name: "shared"}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			tg.Register("api", spy)
			tg.Chain(spy, tg.Policy("api"))
		})
	}
	wg.Wait()
}
