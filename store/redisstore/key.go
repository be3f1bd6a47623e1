package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/trafficguard-go/trafficguard/store"
)

const (
	// maxPart bounds each part of a key: what is longer is hashed.
	maxPart = 64
	// digestSize is 144 bits, a whole number of base64 digits: to find two texts with one digest takes 2^72 tries.
	digestSize   = 18
	maxNamespace = 32
)

// checkNamespace says what is wrong with a namespace. It takes no escapes, because it is written by hand.
func checkNamespace(s string) error {
	if s == "" {
		return errors.New("the namespace is empty: give a short name of the application, such as \"shop\"")
	}
	if len(s) > maxNamespace {
		return fmt.Errorf("namespace %q: must be at most %d bytes", s, maxNamespace)
	}
	for _, c := range []byte(s) {
		if !alphanumeric(c) && !strings.ContainsRune("._-", rune(c)) {
			return fmt.Errorf("namespace %q: may hold letters, digits, \".\", \"_\" and \"-\" only", s)
		}
	}
	return nil
}

// keyText returns the name under which k is stored:
//
//	namespace:{kind=subject}:policy:method:pattern:shape
//
// The part in braces is what Redis Cluster hashes. It is the subject, so that all that one request has to ask may be
// on one node, while subjects spread over all. Where there is no subject, as in a limit for everybody together, the
// rest moves into the braces: these keys would else all be on one node.
//
//	namespace:{kind=:policy:method:pattern:shape}
//
// Different keys have different names: no part holds a separator, since whatever is not plain text is escaped, and
// parts that are too long become a digest behind a mark that no escaped text begins with. Empty parts at the end
// are left out.
func keyText(namespace string, k store.Key) string {
	var space [256]byte
	b := append(space[:0], namespace...)
	b = append(b, ":{"...)
	b = appendPart(b, k.Kind, kindText)
	b = append(b, '=')
	if k.Subject == "" {
		b = append(b, ':')
		b = appendScope(b, k)
		b = append(b, '}')
	} else {
		b = appendPart(b, k.Subject, plainText)
		b = append(b, "}:"...)
		b = appendScope(b, k)
	}
	return string(b)
}

func appendScope(b []byte, k store.Key) []byte {
	end := len(b)
	for i, part := range [...]string{k.Policy, k.Method, k.Pattern, k.Shape} {
		if i > 0 {
			b = append(b, ':')
		}
		if part != "" {
			b = appendPart(b, part, plainText)
			end = len(b)
		}
	}
	return b[:end]
}

// appendPart appends s with all bytes escaped that are not plain, or its digest if that is too long.
func appendPart(b []byte, s string, plain func(byte) bool) []byte {
	const hex = "0123456789ABCDEF"
	start := len(b)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
		if len(b)-start > maxPart {
			sum := sha256.Sum256([]byte(s))
			b = append(b[:start], '#')
			return base64.RawURLEncoding.AppendEncode(b, sum[:digestSize])
		}
	}
	return b
}

// plainText says which bytes stand for themselves: none that separates parts here, or means anything to a
// pattern of Redis.
func plainText(c byte) bool {
	return alphanumeric(c) || c == '.' || c == '_' || c == '-' || c == '~' || c == '/' || c == '@' || c == '+' || c == ','
}

// kindText also takes the colon of kinds such as "header:X-User-Id"; "=" ends a kind.
func kindText(c byte) bool { return plainText(c) || c == ':' }

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
