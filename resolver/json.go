package resolver

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What is here reads text that encoding/json has found valid. It finds a member without decoding the rest.

// A finding says how often an object has a member.
type finding uint8

const (
	missing finding = iota
	once
	repeated
	otherSpelling // there is a member that some reader takes for it
)

// member returns the text of the member called name of the object that begins text.
func member(text []byte, name string) (value []byte, found finding) {
	s := scanner{text: text, pos: 1}
	for s.skipSpace(); s.text[s.pos] != '}'; s.skipSpace() {
		key := s.take()
		key = key[1 : len(key)-1]
		s.skipSpace()
		s.pos++ // the colon
		s.skipSpace()
		v := s.take()
		switch exact, similar := spells(key, name); {
		case exact && found != missing:
			return nil, repeated
		case exact:
			value, found = v, once
		case similar:
			return nil, otherSpelling
		}
		if s.skipSpace(); s.text[s.pos] == ',' {
			s.pos++
		}
	}
	return value, found
}

// A scanner walks over valid JSON.
type scanner struct {
	text []byte
	pos  int
}

func (s *scanner) skipSpace() {
	for s.text[s.pos] == ' ' || s.text[s.pos] == '\n' || s.text[s.pos] == '\t' || s.text[s.pos] == '\r' {
		s.pos++
	}
}

// take returns the value that begins here and moves behind it.
func (s *scanner) take() []byte {
	start := s.pos
	switch s.text[start] {
	case '"':
		s.skipString()
	case '{', '[':
		s.skipNested()
	default:
		for !endsWord(s.text[s.pos]) {
			s.pos++
		}
	}
	return s.text[start:s.pos]
}

// endsWord reports whether c stands behind a number, true, false or null.
func endsWord(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\n', '\t', '\r':
		return true
	default:
		return false
	}
}

func (s *scanner) skipString() {
	for s.pos++; s.text[s.pos] != '"'; s.pos++ {
		if s.text[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos++
}

// skipNested counts brackets of both kinds together: they are known to match.
func (s *scanner) skipNested() {
	for depth := 0; ; {
		switch s.text[s.pos] {
		case '"':
			s.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.pos++
		if depth == 0 {
			return
		}
	}
}

// spells reports whether the inside of a JSON string is name, and whether some reader may take it for name: those that
// ignore case, see sameName, and go-json, to which the beginning of a name is enough if there is an escape in it.
func spells(inside []byte, name string) (exact, similar bool) {
	escaped := bytes.IndexByte(inside, '\\') >= 0
	exact = true
	for len(inside) > 0 && name != "" {
		got, n, _ := decodeRune(inside)
		want, m := utf8.DecodeRuneInString(name)
		if got != want {
			exact = false
			if fold(got) != fold(want) {
				return false, false
			}
		}
		inside, name = inside[n:], name[m:]
	}
	similar = len(inside) == 0 && (name == "" || escaped)
	return exact && similar && name == "", similar
}

// unquote returns what the inside of a JSON string stands for. It reports false if that is no text.
func unquote(inside []byte) (string, bool) {
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside), true
	}
	var b strings.Builder
	b.Grow(len(inside))
	for len(inside) > 0 {
		r, n, ok := decodeRune(inside)
		if !ok {
			return "", false
		}
		b.WriteRune(r)
		inside = inside[n:]
	}
	return b.String(), true
}

// decodeRune returns the first character of the inside of a JSON string and the length of its spelling. For an
// unpaired surrogate it returns U+FFFD, as encoding/json does, and false.
func decodeRune(inside []byte) (r rune, n int, ok bool) {
	if inside[0] != '\\' {
		r, n = utf8.DecodeRune(inside)
		return r, n, true
	}
	switch c := inside[1]; c {
	case 'b':
		return '\b', 2, true
	case 'f':
		return '\f', 2, true
	case 'n':
		return '\n', 2, true
	case 'r':
		return '\r', 2, true
	case 't':
		return '\t', 2, true
	case 'u':
		return decodeHex(inside)
	default:
		return rune(c), 2, true
	}
}

func decodeHex(inside []byte) (r rune, n int, ok bool) {
	r = hex4(inside[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6, true
	}
	if len(inside) >= 12 && inside[6] == '\\' && inside[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(inside[8:])); pair != unicode.ReplacementChar {
			return pair, 12, true
		}
	}
	return unicode.ReplacementChar, 6, false
}

// hex4 returns the number that four hexadecimal digits stand for.
func hex4(digits []byte) (r rune) {
	for _, c := range digits[:4] {
		switch {
		case c <= '9':
			c -= '0'
		default:
			c = c&^0x20 - 'A' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}
