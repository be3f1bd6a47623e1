package resolver_test

import (
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

func TestInteger(t *testing.T) {
	t.Parallel()
	long := "1" + strings.Repeat("0", 400)
	id := func(value string) *exchange { return at("/", value) }
	check(t, resolver.Integer(resolver.PathParam("id")), []rule{
		{"a digit", id("1"), "path:id=1"},
		{"zero", id("0"), "path:id=0"},
		{"zeros inside", id("100200"), "path:id=100200"},
		{"negative", id("-7"), "path:id=-7"},
		{"of any length", id(long), "path:id=" + long},
		{"absent stays absent", id(""), "absent"},
		{"a fault stays a fault", id("%31"), "400"},
		{"a leading zero", id("01"), "400"},
		{"more of them", id("001"), "400"},
		{"zero twice", id("00"), "400"},
		{"a plus sign", id("+1"), "400"},
		{"a space before", id(" 1"), "400"},
		{"a space behind", id("1 "), "400"},
		{"a line break", id("1\n"), "400"},
		{"negative zero", id("-0"), "400"},
		{"negative with a leading zero", id("-01"), "400"},
		{"only a minus sign", id("-"), "400"},
		{"two minus signs", id("--1"), "400"},
		{"a fraction", id("1.0"), "400"},
		{"an exponent", id("1e3"), "400"},
		{"hexadecimal", id("0x1"), "400"},
		{"an underscore", id("1_0"), "400"},
		{"digits of another script", id("١"), "400"},
		{"a word", id("ann"), "400"},
		{"NUL", id("1\x00"), "400"},
	})
}

func TestIntegerOfOthers(t *testing.T) {
	t.Parallel()
	integer := func(r resolver.Func) string { return answer(resolver.Integer(r), get("/")) }
	for _, c := range []struct{ got, want, why string }{
		{integer(exempt), "exempt", "exempt stays exempt"},
		{integer(bad), "400", "a fault stays a fault"},
		{integer(down), "error: down", "a failure stays a failure"},
		{integer(resolver.Everyone()), "everyone=", "everyone has no number"},
		{integer(alice), "400", "a name is no number"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.why, c.got, c.want)
		}
	}
	check(t, resolver.Integer(resolver.BodyField("id")), []rule{
		{"a number in JSON", object(`{"id":9007199254740993}`), "body:id=9007199254740993"},
		{"a text in JSON, as ,string reads it", object(`{"id":"01"}`), "400"},
	})
	check(t, resolver.Integer(resolver.FormField("id")), []rule{
		{"a form", post(formType, "id=1"), "form:id=1"},
		{"a plus sign, escaped", post(formType, "id=%2B1"), "400"},
		{"a space", post(formType, "id=+1"), "400"},
	})
	check(t, resolver.Integer(resolver.Header("X-Id")), []rule{
		{"spaces around a header are not part of it", with("X-Id", " 1 "), "header:X-Id=1"},
		{"a leading zero", with("X-Id", "01"), "400"},
	})
	panics(t, func() { resolver.Integer(nil) }, "Integer", "resolver 1 is nil")
}

// Two texts that pass are two numbers, and every number has a text that passes.
func FuzzInteger(f *testing.F) {
	for _, s := range []string{"0", "-0", "01", "+1", "-12", "", " 1", "1e2", "9223372036854775808"} {
		f.Add(s, int64(-1))
	}
	passes := func(s string) bool {
		subject, err := resolver.Integer(constant("id", s))(get("/"))
		return err == nil && subject.Value != ""
	}
	f.Fuzz(func(t *testing.T, s string, n int64) {
		number, ok := new(big.Int).SetString(s, 10)
		if want := ok && number.String() == s; passes(s) != want {
			t.Errorf("%q passes: %v, want %v", s, !want, want)
		}
		if !passes(strconv.FormatInt(n, 10)) {
			t.Errorf("%d does not pass", n)
		}
	})
}
