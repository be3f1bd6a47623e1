package resolver_test

import (
	"fmt"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/resolver"
)

type (
	role  string
	point struct{ x, y int }
	loose struct{ v any }
)

func TestValueIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stored, want any
		holds        bool
	}{
		{"admin", "admin", true},
		{role("admin"), "admin", true},
		{"admin", role("admin"), true},
		{"Admin", "admin", false},
		{nil, "admin", false},
		{7, "7", false},
		{7, 7, true},
		{int64(7), 7, true},
		{uint8(7), 7, true},
		{7, uint(7), true},
		{uint(7), uint64(7), true},
		{-1, uint64(1<<64 - 1), false},
		{uint64(1<<64 - 1), -1, false},
		{true, true, true},
		{true, false, false},
		{1.5, 1.5, true},
		{point{1, 2}, point{1, 2}, true},
		{point{1, 2}, point{2, 1}, false},
		{loose{1}, loose{1}, true},
		{loose{[]int{1}}, loose{1}, false}, // comparing these would panic
		{[]string{"admin"}, "admin", false},
		{7, true, false},
	} {
		got, err := resolver.ValueIs("k", c.want)(storing("k", c.stored))
		if got != c.holds || err != nil {
			t.Errorf("%#v is %#v: got %t, %v", c.stored, c.want, got, err)
		}
	}
}

func TestHeaderIs(t *testing.T) {
	t.Parallel()
	check(t, resolver.ExemptWhen(resolver.HeaderIs("x-internal", "s3cret")), []rule{
		{"the value", with("X-Internal", "s3cret"), "exempt"},
		{"surrounding spaces", with("X-Internal", " s3cret\t"), "exempt"},
		{"another value as long", with("X-Internal", "s3creT"), "absent"},
		{"a beginning", with("X-Internal", "s3cre"), "absent"},
		{"missing", get("/"), "absent"},
		{"two lines", with("X-Internal", "s3cret", "s3cret"), "400"},
	})
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	const origin, method = "Origin", "Access-Control-Request-Method"
	options := func() *exchange { return get("/").method("OPTIONS") }
	check(t, resolver.ExemptWhen(resolver.Preflight()), []rule{
		{"a preflight", options().with(origin, "https://a.example").with(method, "PUT"), "exempt"},
		{"OPTIONS alone", options(), "absent"},
		{"no method", options().with(origin, "https://a.example"), "absent"},
		{"no origin", options().with(method, "PUT"), "absent"},
		{"an empty method", options().with(origin, "https://a.example").with(method, ""), "absent"},
		{"two origins", options().with(origin, "https://a.example", "b").with(method, "PUT"), "absent"},
		{"GET", get("/").with(origin, "https://a.example").with(method, "PUT"), "absent"},
	})
}

func TestExemptWhen(t *testing.T) {
	t.Parallel()
	failing := func(guard.Exchange) (bool, error) { return true, fmt.Errorf("asking: %w", errDown) }
	if got := answer(resolver.ExemptWhen(failing), get("/")); got != "error: asking: down" {
		t.Errorf("a predicate that fails exempts: %q", got)
	}
	r := resolver.First(resolver.ExemptWhen(resolver.ValueIs("role", "admin")), resolver.Value("user_id"))
	x := storing("user_id", "u1")
	check(t, r, []rule{
		{"holds", storing("role", role("admin")), "exempt"},
		{"does not hold", x, "value:user_id=u1"},
	})
}

func TestExemptionsRefuseAtConstruction(t *testing.T) {
	t.Parallel()
	panics(t, func() { resolver.ExemptWhen(nil) }, "predicate is nil")
	panics(t, func() { resolver.ValueIs("", nil) }, "key is empty", "<nil> cannot be compared")
	panics(t, func() { resolver.ValueIs("k", []int{}) }, "[]int cannot be compared")
	panics(t, func() { resolver.ValueIs("k", loose{[]int{}}) }, "cannot be compared")
	panics(t, func() { resolver.HeaderIs("Host", "") }, "takes Host out", "is empty or has")
	panics(t, func() { resolver.HeaderIs("X-A", " a") }, "surrounding spaces")
}
