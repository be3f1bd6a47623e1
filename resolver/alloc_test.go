//go:build !race

package resolver_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

func TestAllocations(t *testing.T) { // not parallel: AllocsPerRun counts the whole process
	proxies := resolver.TrustedProxies("127.0.0.0/8", "10.0.0.0/8")
	header := with("X-User-Id", "u1")
	for _, c := range []struct {
		name string
		r    resolver.Func
		x    *exchange
		want float64
	}{
		{"Value of a string", resolver.Value("k"), storing("k", "u1"), 0},
		{"Value of an integer", resolver.Value("k"), storing("k", 123456), 1},
		{"Header", resolver.Header("X-User-Id"), header, 0},
		{"Header that is missing", resolver.Header("X-Other"), header, 0},
		{"Query", resolver.Query("user"), query("a=1&user=u1&b=2"), 0},
		{"PathParam", resolver.PathParam("id"), at("/users/1", "1"), 0},
		{"Integer", resolver.Integer(resolver.PathParam("id")), at("/users/1", "1"), 0},
		{"ClientIP", resolver.ClientIP(), from("192.0.2.10:1"), 0},
		{"ClientIP that ignores a header", resolver.ClientIP(), from("192.0.2.10:1", "198.51.100.1"), 0},
		{"ClientIP behind proxies", resolver.ClientIP(proxies), from("127.0.0.1:1", "198.51.100.1, 203.0.113.7:80, 10.0.0.1"), 0},
		{"ClientIP, IPv6", resolver.ClientIP(), from("[2001:db8::1]:1"), 1},
		{"Everyone", resolver.Everyone(), header, 0},
		{"First", resolver.First(absent, resolver.Header("X-User-Id")), header, 0},
		{"As", resolver.As("user", resolver.Header("X-User-Id")), header, 0},
		{"Join", resolver.Join(resolver.Header("X-User-Id"), resolver.ClientIP()), header, 1},
		{"Hashed", resolver.Hashed(secret, resolver.Header("X-User-Id")), header, 1},
		{"ExemptWhen ValueIs", resolver.ExemptWhen(resolver.ValueIs("role", "admin")), storing("role", "user"), 0},
		{"ExemptWhen HeaderIs", resolver.ExemptWhen(resolver.HeaderIs("X-User-Id", "s3cret")), header, 0},
		{"ExemptWhen Preflight", resolver.ExemptWhen(resolver.Preflight()), header.method("OPTIONS"), 0},
	} {
		if _, err := c.r(c.x); err != nil {
			t.Fatal(c.name, err)
		}
		if got := testing.AllocsPerRun(200, func() { _, _ = c.r(c.x) }); got != c.want {
			t.Errorf("%s: %v allocations, want %v", c.name, got, c.want)
		}
	}
}

// rewinder is a body that can be sent again without allocating.
type rewinder struct{ bytes.Reader }

func (*rewinder) Close() error { return nil }

// A body costs its buffer, what holds it, and the subject's text; asking again costs the text.
func TestBodyFieldAllocations(t *testing.T) {
	r := resolver.BodyField("user.id")
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "application/json; charset=UTF-8"} {
		for name, size := range map[string]int{"200 B": 200, "20 kB": 20_000} {
			body := jsonOf(size)
			x, src := post(contentType, ""), new(rewinder)
			x.req.ContentLength = int64(len(body))
			first := testing.AllocsPerRun(100, func() {
				src.Reset(body)
				x.req.Body = src
				_, _ = r(x)
			})
			again := testing.AllocsPerRun(100, func() { _, _ = r(x) })
			if first != 3 || again != 1 {
				t.Errorf("%s %q: %v allocations and %v when asked again, want 3 and 1", name, contentType, first, again)
			}
			if got, _ := io.ReadAll(x.req.Body); !bytes.Equal(got, body) {
				t.Errorf("%s: the handler gets %d bytes of %d", name, len(got), len(body))
			}
		}
	}
}
