package resolver_test

import (
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

// at is a request to target for which the router has found id.
func at(target, id string) *exchange {
	x := get(target)
	x.params = map[string]string{"id": id}
	return x
}

func TestPathParam(t *testing.T) {
	t.Parallel()
	check(t, resolver.PathParam("id"), []rule{
		{"plain", at("/users/1", "1"), "path:id=1"},
		{"decoded by the router", at("/users/a%20b", "a b"), "path:id=a b"},
		{"an escape that the router left, Echo", at("/users/%31", "%31"), "400"},
		{"an address as encodeURIComponent spells it, Echo", at("/users/a%40b.c", "a%40b.c"), "400"},
		{"the same, Gin", at("/users/a%40b.c", "a@b.c"), "path:id=a@b.c"},
		{"an escape in what was decoded", at("/users/%2531", "%31"), "400"},
		{"the same where another escape makes the router keep RawPath", at("/users/%2531/%31", "%2531"), "400"},
		{"an escape behind a percent sign", at("/users/%25%2541", "%%41"), "400"},
		{"an escape behind what is none", at("/users/5%25z%2541", "5%z%41"), "400"},
		{"an escape in lower case", at("/users/%25c3", "%c3"), "400"},
		{"a percent sign that is no escape", at("/users/50%25%21", "50%!"), "path:id=50%!"},
		{"a percent sign before one digit", at("/users/50%254", "50%4"), "path:id=50%4"},
		{"a percent sign at the end", at("/users/50%25", "50%"), "path:id=50%"},
		{"missing", get("/"), "absent"},
		{"empty", at("/users/", ""), "absent"},
		{"only spaces", at("/users/%20", " "), "absent"},
		{"invalid UTF-8", at("/users/%ff", "\xff"), "400"},
	})
}

func TestPathParamRefusesAnEmptyName(t *testing.T) {
	t.Parallel()
	panics(t, func() { resolver.PathParam("") }, "PathParam", "name is empty")
}
