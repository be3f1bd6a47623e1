package resolver

import (
	"unicode"
	"unicode/utf8"
)

// sameName reports whether a reader that ignores case may take a for b. Readers do that in their own ways, by
// Unicode's simple folding or by comparing what is left in lower or upper case.
func sameName(a, b string) bool {
	for a != "" && b != "" {
		r, n := utf8.DecodeRuneInString(a)
		s, m := utf8.DecodeRuneInString(b)
		if fold(r) != fold(s) {
			return false
		}
		a, b = a[n:], b[m:]
	}
	return a == b
}

// fold returns the same rune for all that meet under folding, lower case and upper case in any order. Folding alone
// keeps the i's of Turkish, U+0130 and U+0131, apart from the others; the lower case of the one and the upper case of
// the other do not.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}
	r = unicode.ToLower(unicode.ToUpper(r))
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}
