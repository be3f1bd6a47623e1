package resolver_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

// query has raw as it came, even what httptest would not let pass.
func query(raw string) *exchange {
	x := get("/")
	x.req.URL.RawQuery = raw
	return x
}

func TestQuery(t *testing.T) {
	t.Parallel()
	check(t, resolver.Query("user"), []rule{
		{"alone", query("user=u1"), "query:user=u1"},
		{"among others", query("a=1&user=u1&b=%20"), "query:user=u1"},
		{"an escaped value", query("user=%75+1"), "query:user=u 1"},
		{"an escaped name", query("%75ser=u1"), "query:user=u1"},
		{"an equals sign in the value", query("user=a=b"), "query:user=a=b"},
		{"empty pairs", query("&&user=u1&"), "query:user=u1"},
		{"no query", query(""), "absent"},
		{"missing", query("a=1"), "absent"},
		{"no value", query("user"), "absent"},
		{"an empty value", query("user="), "absent"},
		{"only spaces", query("user=%20+"), "absent"},
		{"a name that begins alike", query("user_id=1&use=2"), "absent"},
		{"twice", query("user=u1&user=u2"), "400"},
		{"twice, one of them escaped", query("user=u1&us%65r=u1"), "400"},
		{"twice, the first empty", query("user&user=u1"), "400"},
		{"another case, which Echo's binder takes", query("USER=u1"), "400"},
		{"another case beside it", query("user=u1&User=u2"), "400"},
		{"another case beyond ASCII: long s", query("u%C5%BFer=u1"), "400"},
		{"a malformed escape", query("user=%zz"), "400"},
		{"a malformed escape elsewhere", query("user=u1&a=%"), "400"},
		{"a malformed escape in a name", query("user=u1&%a=1"), "400"},
		{"a semicolon", query("user=u1;a=1"), "400"},
		{"a semicolon elsewhere", query("user=u1&a;b"), "400"},
		{"invalid UTF-8", query("user=%ff"), "400"},
		{"more pairs than net/url reads", query("user=u1" + strings.Repeat("&", 10_000)), "400"},
		{"as many pairs as net/url reads", query("user=u1" + strings.Repeat("&", 9_999)), "query:user=u1"},
	})
}

func TestQueryIgnoresCaseAsReadersDo(t *testing.T) {
	t.Parallel()
	check(t, resolver.Query("id"), []rule{
		{"alone", query("id=1"), "query:id=1"},
		{"I with a dot, lower case i", query("%C4%B0d=1"), "400"},
		{"i without a dot, upper case I", query("id=1&%C4%B1d=2"), "400"},
		{"an accent is another letter", query("id=1&%C3%ADd=2"), "query:id=1"},
		{"a byte that is no text", query("id=1&%ffd=2"), "query:id=1"},
	})
}

func TestQueryRefusesAnEmptyName(t *testing.T) {
	t.Parallel()
	panics(t, func() { resolver.Query("") }, "Query", "name is empty")
}

// A resolver that yields a subject must have read what url.ParseQuery reads, and nothing else may be there.
func FuzzQuery(f *testing.F) {
	for _, raw := range []string{"us\u0131r=1&user=2", "user=u1", "a=1&user=%41+b", "us%65r=1&USER=2", "user=%zz", "user=1;b=2", "&=&user", "user=%ff"} {
		f.Add(raw)
	}
	r := resolver.Query("user")
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := r(query(raw))
		values, parseErr := url.ParseQuery(raw)
		switch {
		case err == nil && parseErr != nil:
			t.Fatalf("%q: ParseQuery says %v, the resolver %+v", raw, parseErr, s)
		case err != nil:
			return
		case len(values["user"]) > 1 || !s.IsAbsent() && s.Value != values.Get("user"):
			t.Fatalf("%q: a handler reads %q, the resolver %+v", raw, values["user"], s)
		case s.IsAbsent() && strings.TrimSpace(values.Get("user")) != "":
			t.Fatalf("%q: a handler reads %q, the resolver nothing", raw, values["user"])
		}
		for name := range values {
			if name != "user" && (strings.EqualFold(name, "user") || strings.ToLower(name) == "user" || strings.ToUpper(name) == "USER") {
				t.Fatalf("%q: a binder that ignores case reads %q, the resolver %+v", raw, name, s)
			}
		}
	})
}
