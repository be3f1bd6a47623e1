package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/trafficguard-go/trafficguard/store"
)

func TestKeyText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65)
	for _, tc := range []struct {
		key  store.Key
		want string
	}{
		{store.Key{Policy: "api", Kind: "header:X-User-Id", Subject: "42"}, "shop:{header:X-User-Id=42}:api"},
		{store.Key{Method: "GET", Pattern: "/posts/:id", Shape: "2", Kind: "ip", Subject: "10.0.0.1"}, "shop:{ip=10.0.0.1}::GET:/posts/%3Aid:2"},
		{store.Key{Policy: "api", Kind: "ip", Subject: "2001:db8::/64"}, "shop:{ip=2001%3Adb8%3A%3A/64}:api"},
		{store.Key{Policy: "api", Kind: "everyone"}, "shop:{everyone=:api}"},
		{store.Key{Policy: "api", Kind: "value:user", Subject: "a}b{c %\x00é"}, "shop:{value:user=a%7Db%7Bc%20%25%00%C3%A9}:api"},
		{store.Key{Policy: "api", Kind: "k", Subject: long[1:]}, "shop:{k=" + long[1:] + "}:api"},
		{store.Key{Policy: "api", Kind: "k", Subject: long}, "shop:{k=#lTfF_fEgSC99WNJentWD9SwC}:api"},
		{store.Key{}, "shop:{=:}"},
	} {
		if got := keyText("shop", tc.key); got != tc.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", tc.key, got, tc.want)
		}
	}
}

// parts generates texts in which separators, escapes and digests are likely.
func parts() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom([]rune(`ab:{}=%#|/*é`+"\x00\n ")), 0, 6, -1),
		rapid.SampledFrom([]string{"", "%3A", ":", "a:b", "}:", "=", "=:", "#AAAA", "everyone", "overflow"}),
		rapid.String(),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.SampledFrom([]string{"x", ":", "{", "é"}).Draw(t, "repeated"), rapid.IntRange(20, 300).Draw(t, "times"))
		}),
	)
}

func keys() *rapid.Generator[store.Key] {
	return rapid.Custom(func(t *rapid.T) store.Key {
		p := parts()
		return store.Key{
			Policy: p.Draw(t, "policy"), Method: p.Draw(t, "method"), Pattern: p.Draw(t, "pattern"),
			Shape: p.Draw(t, "shape"), Kind: p.Draw(t, "kind"), Subject: p.Draw(t, "subject"),
		}
	})
}

func TestKeysDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := keys().Draw(t, "a")
		b := keys().Draw(t, "b")
		// A neighbour is likelier to collide than a stranger: text moves from one part to the next.
		if rapid.Bool().Draw(t, "neighbour") {
			b = a
			fields := []*string{&b.Policy, &b.Method, &b.Pattern, &b.Shape, &b.Kind, &b.Subject}
			i := rapid.IntRange(0, 4).Draw(t, "i")
			glued := *fields[i] + rapid.SampledFrom([]string{"", ":", "=", "%3A"}).Draw(t, "glue") + *fields[i+1]
			cut := rapid.IntRange(0, len(glued)).Draw(t, "cut")
			*fields[i], *fields[i+1] = glued[:cut], glued[cut:]
		}
		mustDiffer(t, a, b)
	})
}

func mustDiffer(t interface {
	Fatalf(string, ...any)
}, a, b store.Key) {
	x, y := keyText("ns", a), keyText("ns", b)
	if (x == y) != (a == b) {
		t.Fatalf("%+v\n%+v\nare stored as\n%s\n%s", a, b, x, y)
	}
	for _, text := range []string{x, y} {
		if strings.Count(text, "{") != 1 || strings.Count(text, "}") != 1 || len(text) > 450 {
			t.Fatalf("%q: more than one hash tag, or too long", text)
		}
		for _, c := range []byte(text) {
			if c <= ' ' || c >= 0x7f {
				t.Fatalf("%q holds %#x", text, c)
			}
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("api", "GET", "/a", "", "header:X", "42", "api", "GET", "/a", "", "header", "X:42")
	f.Add("a", "b", "", "", "everyone", "", "a", "b", "", "", "everyone", ":a")
	f.Add("", "", "", "", "k", "#AAAA", "", "", "", "", "k", strings.Repeat("y", 100))
	f.Fuzz(func(t *testing.T, p1, m1, r1, s1, k1, u1, p2, m2, r2, s2, k2, u2 string) {
		mustDiffer(t, store.Key{Policy: p1, Method: m1, Pattern: r1, Shape: s1, Kind: k1, Subject: u1},
			store.Key{Policy: p2, Method: m2, Pattern: r2, Shape: s2, Kind: k2, Subject: u2})
	})
}

// TestHashTag asks Redis itself: the policies of one subject share a slot, subjects spread, and no subject can choose.
func TestHashTag(t *testing.T) {
	t.Parallel()
	c := newCRC(t)
	alice := c.slot(keyText("ns", store.Key{Policy: "a", Kind: "user", Subject: "alice"}))
	if other := c.slot(keyText("ns", store.Key{Method: "GET", Pattern: "/{x}", Kind: "user", Subject: "alice"})); other != alice {
		t.Errorf("two policies of one subject are in slots %d and %d", alice, other)
	}

	const subjects, nodes = 1000, 3
	perNode, slots := make([]int, nodes), map[int]bool{}
	for i := range subjects {
		slot := c.slot(keyText("ns", store.Key{Policy: "a", Kind: "user", Subject: fmt.Sprint(i)}))
		slots[slot] = true
		perNode[slot*nodes/16384]++
	}
	if len(slots) < 900 {
		t.Errorf("%d subjects are in %d slots", subjects, len(slots))
	}
	for i, n := range perNode {
		if n < subjects/nodes-100 || n > subjects/nodes+100 {
			t.Errorf("node %d of %d has %d of %d subjects", i, nodes, n, subjects)
		}
	}

	everyone := map[int]bool{}
	for i := range 20 {
		everyone[c.slot(keyText("ns", store.Key{Policy: fmt.Sprint("p", i), Kind: "everyone"}))] = true
	}
	if len(everyone) < 15 {
		t.Errorf("20 limits for everybody are in %d slots", len(everyone))
	}

	injected := map[int]bool{}
	for i := range 20 {
		injected[c.slot(keyText("ns", store.Key{Policy: "a", Kind: "user", Subject: fmt.Sprintf("{same}%d", i)}))] = true
	}
	if len(injected) < 15 {
		t.Errorf("20 subjects with a hash tag in their name are in %d slots", len(injected))
	}
}

// crc computes slots: CRC16 (XMODEM) of the hash tag. A cluster in TestCluster agrees.
type crc [256]uint16

func newCRC(t *testing.T) *crc {
	c := new(crc)
	for i := range c {
		x := uint16(i) << 8
		for range 8 {
			if x&0x8000 != 0 {
				x = x<<1 ^ 0x1021
			} else {
				x <<= 1
			}
		}
		c[i] = x
	}
	if got := c.slot("123456789"); got != 0x31c3 { // from the specification of Redis Cluster
		t.Fatalf("CRC of the test vector is %#x", got)
	}
	return c
}

func (c *crc) slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var x uint16
	for i := range len(key) {
		x = x<<8 ^ c[byte(x>>8)^key[i]]
	}
	return int(x % 16384)
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{"a", "shop", "Shop-1.2_x", strings.Repeat("a", 32)} {
		if err := checkNamespace(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", "a{b", "a}", "a:b", "a b", "é", "a*", strings.Repeat("a", 33)} {
		if checkNamespace(bad) == nil {
			t.Errorf("%q passed", bad)
		}
	}
}
