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
		{"left encoded by a router that matches on RawPath", at("/users/%31", "%31"), "path:id=1"},
		{"an address as encodeURIComponent spells it, Echo", at("/users/a%40b.c", "a%40b.c"), "path:id=a@b.c"},
		{"the same, Gin", at("/users/a%40b.c", "a@b.c"), "path:id=a@b.c"},
		{"not decoded twice: no RawPath", at("/users/%2531", "%31"), "path:id=%31"},
		{"not decoded twice: RawPath has another spelling", at("/%75sers/%2531", "%31"), "path:id=%31"},
		{"a percent sign that is no escape", at("/users/50%25%21", "50%!"), "path:id=50%!"},
		{"missing", get("/"), "absent"},
		{"empty", at("/users/", ""), "absent"},
		{"only spaces", at("/users/%20", " "), "absent"},
		{"invalid UTF-8", at("/users/%ff", "\xff"), "400"},
		{"invalid UTF-8, left encoded", at("/users/%fF", "%fF"), "400"},
	})
}

func TestPathParamRefusesAnEmptyName(t *testing.T) {
	t.Parallel()
	panics(t, func() { resolver.PathParam("") }, "PathParam", "name is empty")
}
