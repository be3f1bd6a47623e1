package resolver_test

import (
	"net/url"
	"testing"
	"unicode"

	"github.com/trafficguard-go/trafficguard/resolver"
)

// Runes are one if they meet in any way in which readers ignore case, and no others are.
func TestNamesMeetAsInAnyReader(t *testing.T) {
	t.Parallel()
	class := map[rune]rune{} // a rune of those with which it meets, itself if there is none
	find := func(r rune) rune {
		for class[r] != 0 && class[r] != r {
			r = class[r]
		}
		return r
	}
	var cased []rune
	for r := rune(1); r <= unicode.MaxRune; r++ {
		others := [...]rune{unicode.SimpleFold(r), unicode.ToLower(r), unicode.ToUpper(r), unicode.ToTitle(r)}
		if others == [...]rune{r, r, r, r} {
			continue
		}
		cased = append(cased, r)
		for _, other := range others {
			class[find(other)] = find(r)
		}
	}
	if find('İ') != find('I') || find('ı') != find('i') || find('\u212a') != find('k') || find('ſ') != find('S') || len(cased) < 2800 {
		t.Fatalf("of %d runes with case the known ones do not meet", len(cased))
	}
	meets := func(a, b rune) bool {
		return answer(resolver.Query(string(a)), query(url.QueryEscape(string(b))+"=1")) == "400"
	}
	for i, r := range cased {
		if other := find(r); other != r && (!meets(r, other) || !meets(other, r)) {
			t.Errorf("%q and %q are two names", r, other)
		}
		if next := cased[(i+1)%len(cased)]; meets(r, next) != (find(r) == find(next)) {
			t.Errorf("%q and %q: one name %v", r, next, meets(r, next))
		}
	}
}
