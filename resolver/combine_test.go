package resolver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

var (
	errDown = errors.New("down")
	bad     = fails(&resolver.Fault{Status: 400, Detail: "bad"})
	down    = fails(errDown)
	alice   = constant("value:user", "alice")
	shop    = constant("header:X-Tenant", "shop")
)

func TestEveryone(t *testing.T) {
	t.Parallel()
	if got := answer(resolver.Everyone(), get("/")); got != "everyone=" {
		t.Errorf("got %q", got)
	}
}

func TestFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		rs   []resolver.Func
		want string
	}{
		{"the first that is not absent", []resolver.Func{absent, alice, shop}, "value:user=alice"},
		{"what comes later is not asked", []resolver.Func{alice, bad}, "value:user=alice"},
		{"a fault does not move on", []resolver.Func{bad, alice}, "400"},
		{"nor does a failure", []resolver.Func{down, alice}, "error: down"},
		{"nor does an exemption", []resolver.Func{exempt, alice}, "exempt"},
		{"one limit for all is somebody", []resolver.Func{absent, resolver.Everyone(), alice}, "everyone="},
		{"all absent", []resolver.Func{absent, absent}, "absent"},
		{"nested", []resolver.Func{resolver.First(absent), resolver.First(absent, shop)}, "header:X-Tenant=shop"},
	} {
		if got := answer(resolver.First(c.rs...), get("/")); got != c.want {
			t.Errorf("%s: got %q, want %q", c.why, got, c.want)
		}
	}
}

func TestFirstKeepsItsOwnList(t *testing.T) {
	t.Parallel()
	rs := []resolver.Func{alice, shop}
	first, join := resolver.First(rs...), resolver.Join(rs...)
	rs[0] = bad
	if got := answer(first, get("/")) + " " + answer(join, get("/")); got != "value:user=alice value:user+header:X-Tenant=5:alice4:shop" {
		t.Errorf("a changed slice gave %q", got)
	}
}

func TestAs(t *testing.T) {
	t.Parallel()
	as := func(r resolver.Func) string { return answer(resolver.As("tenant", r), get("/")) }
	for _, c := range []struct{ got, want, why string }{
		{as(alice), "tenant=alice", "the kind is set"},
		{as(resolver.Everyone()), "tenant=", "also where there is no value"},
		{as(absent), "absent", "absent stays absent"},
		{as(exempt), "exempt", "exempt stays exempt"},
		{as(bad), "400", "a fault stays a fault"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.why, c.got, c.want)
		}
	}
}

func TestAsChecksTheKind(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("k", 64)
	for _, kind := range []string{"a", "Tenant-1_x.y:z", longest} {
		resolver.As(kind, alice)
	}
	for _, kind := range []string{"", "a b", "a+b", "{a}", "é", longest + "k", "a\n"} {
		panics(t, func() { resolver.As(kind, nil) }, "the kind", "resolver 1 is nil")
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		rs   []resolver.Func
		want string
	}{
		{"two", []resolver.Func{shop, alice}, "header:X-Tenant+value:user=4:shop5:alice"},
		{"one", []resolver.Func{alice}, "value:user=5:alice"},
		{"one limit for all as a part", []resolver.Func{resolver.Everyone(), alice}, "everyone+value:user=0:5:alice"},
		{"more than fit on the stack", []resolver.Func{alice, alice, alice, alice, alice}, "value:user+value:user+value:user+value:user+value:user=5:alice5:alice5:alice5:alice5:alice"},
		{"one absent", []resolver.Func{alice, absent}, "absent"},
		{"exempt before absent", []resolver.Func{exempt, absent}, "exempt"},
		{"exempt after absent", []resolver.Func{absent, exempt}, "exempt"},
		{"a fault after absent is a fault: absent would lead to another limit", []resolver.Func{absent, bad}, "400"},
		{"exempt before a fault", []resolver.Func{exempt, bad}, "exempt"},
		{"a fault before exempt", []resolver.Func{bad, exempt}, "400"},
		{"a failure", []resolver.Func{alice, down}, "error: down"},
	} {
		if got := answer(resolver.Join(c.rs...), get("/")); got != c.want {
			t.Errorf("%s: got %q, want %q", c.why, got, c.want)
		}
	}
}

// Different tuples never meet, whatever is in them.
func TestJoinKeepsTuplesApart(t *testing.T) {
	t.Parallel()
	texts := []string{"a", "b:c", "a:b", "c", "1:a", "a1:b", "|", "{a}", "%", "\x00", "\n", "x:inflight", "11:", "a|b", "b|c"}
	seen := map[string][2]string{}
	for _, a := range texts {
		for _, b := range texts {
			got := answer(resolver.Join(constant("t", a), constant("u", b)), get("/"))
			if other, ok := seen[got]; ok {
				t.Errorf("%q and %q are both %q", other, [2]string{a, b}, got)
			}
			seen[got] = [2]string{a, b}
		}
	}
}

func FuzzJoin(f *testing.F) {
	f.Add("a", "b:c", "a:b", "c")
	f.Add("1:a", "", "1", "a")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one := answer(resolver.Join(constant("t", a), constant("u", b)), get("/"))
		two := answer(resolver.Join(constant("t", c), constant("u", d)), get("/"))
		if (one == two) != (a == c && b == d) {
			t.Fatalf("(%q, %q) is %q, (%q, %q) is %q", a, b, one, c, d, two)
		}
	})
}

// The shape is part of the kind: a client may write into a part what a nested join would make of others.
func TestJoinKeepsShapesApart(t *testing.T) {
	t.Parallel()
	a, b, c := constant("a", "1"), constant("b", "2"), constant("c", "3")
	left := answer(resolver.Join(resolver.Join(a, b), c), get("/"))
	right := answer(resolver.Join(constant("a", "1:11:2"), resolver.Join(b, c)), get("/"))
	if left != "(a+b)+c=6:1:11:21:3" || right != "a+(b+c)=6:1:11:26:1:21:3" {
		t.Errorf("got %q and %q", left, right)
	}
}

// The kind of a part may differ from request to request.
func TestJoinOfChangingKinds(t *testing.T) {
	t.Parallel()
	r := resolver.Join(resolver.First(resolver.Header("X-User"), resolver.ClientIP()), shop)
	for range 2 {
		check(t, r, []rule{
			{"by header", with("X-User", "u1"), "header:X-User+header:X-Tenant=2:u14:shop"},
			{"by address", get("/"), "ip+header:X-Tenant=9:192.0.2.14:shop"},
		})
	}
}

func TestMap(t *testing.T) {
	t.Parallel()
	lower := resolver.Map(resolver.Header("X-Mail"), strings.ToLower)
	check(t, lower, []rule{
		{"normalised", with("X-Mail", "Ann@Example.org"), "header:X-Mail=ann@example.org"},
		{"absent", get("/"), "absent"},
		{"a fault", with("X-Mail", "a", "b"), "400"},
	})
	drop := func(string) string { return "" }
	for _, c := range []struct{ got, want, why string }{
		{answer(resolver.Map(alice, drop), get("/")), "absent", "an empty result is absent"},
		{answer(resolver.Map(alice, func(string) string { return " " }), get("/")), "absent", "a blank one too"},
		{answer(resolver.Map(alice, func(string) string { return "\xff" }), get("/")), "400", "text stays text"},
		{answer(resolver.Map(exempt, strings.ToLower), get("/")), "exempt", "exempt has no value to be mapped"},
		{answer(resolver.Map(resolver.Everyone(), drop), get("/")), "everyone=", "nor has everyone"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.why, c.got, c.want)
		}
	}
}

func TestCombinationsRefuseNil(t *testing.T) {
	t.Parallel()
	panics(t, func() { resolver.First() }, "First", "no resolver")
	panics(t, func() { resolver.First(nil, alice, nil) }, "First", "resolver 1 is nil", "resolver 3 is nil")
	panics(t, func() { resolver.Join() }, "Join", "no resolver")
	panics(t, func() { resolver.Join(alice, nil) }, "Join", "resolver 2 is nil")
	panics(t, func() { resolver.Map(nil, nil) }, "Map", "resolver 1 is nil", "function is nil")
}
