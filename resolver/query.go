package resolver

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// Query identifies the client by a parameter of the query string. The client chooses it freely; see [Value] for what
// it cannot choose. The kind is "query:" and the name. A missing or blank parameter is absent.
//
// It answers 400 where two readers could differ: if the parameter is given more than once, also in another case
// (Echo's binder takes "USER" for "user"), if its value is not valid UTF-8, and if anything in the query string is
// malformed, a semicolon for instance, since [url.URL.Query] drops such pairs silently. It does not look at the body: a
// handler that reads with [http.Request.FormValue] or with a Bind that reads forms too gets what a client put there.
//
// Different texts are different subjects; where the handler parses a number, wrap it in [Integer]. It does not allocate
// where the query string has no escapes.
func Query(name string) Func {
	mustBuild("Query", checkName("the parameter's name", name))
	kind, what := "query:"+name, fmt.Sprintf("the query parameter %q", name)
	return func(x guard.Exchange) (Subject, error) {
		value, err := lookup(x.Request().URL.RawQuery, name, what)
		if err != nil {
			return Subject{}, err
		}
		return textSubject(kind, value, what)
	}
}

// maxPairs is the number of pairs above which url.ParseQuery returns none of them.
const maxPairs = 10_000

// lookup returns the value of name in urlencoded text, "" if there is none.
func lookup(encoded, name, what string) (string, error) {
	var value string
	var found bool
	p := parametersOf(encoded)
	for p.next() {
		switch {
		case !sameName(p.key, name):
			continue
		case p.key != name:
			return "", invalid(what + " is ambiguous: it is spelled in another case")
		case found:
			return "", invalid(what + " is given more than once")
		}
		found = true
		value, _ = url.QueryUnescape(p.value) // it is well escaped
	}
	return value, p.fault(what)
}

// notInQuery refuses a query string that has one of these names, in whatever case: a handler that binds may read the
// identity there.
func notInQuery(query, what string, names ...string) error {
	p := parametersOf(query)
	for p.next() {
		for _, name := range names {
			if sameName(p.key, name) {
				return invalid(what + " is ambiguous: the query string names it too")
			}
		}
	}
	return p.fault(what)
}

// A parameters walks over urlencoded text. It reads as url.ParseQuery does, and ends with a fault at what that would
// drop.
type parameters struct {
	rest       string
	key, value string // the value still escaped, and well so
	tooMany    bool
	malformed  bool
}

func parametersOf(encoded string) parameters {
	return parameters{rest: encoded, tooMany: strings.Count(encoded, "&") >= maxPairs}
}

func (p *parameters) next() bool {
	if p.rest == "" || p.tooMany {
		return false
	}
	var pair string
	pair, p.rest, _ = strings.Cut(p.rest, "&")
	key, value, _ := strings.Cut(pair, "=")
	key, err := url.QueryUnescape(key)
	p.key, p.value = key, value
	p.malformed = err != nil || strings.Contains(pair, ";") || !wellEscaped(value)
	return !p.malformed
}

// fault returns why the walk has ended before the text, nil if it has not.
func (p *parameters) fault(what string) error {
	switch {
	case p.malformed:
		return invalid(what + " cannot be read: the parameters are malformed")
	case p.tooMany:
		return invalid(what + " cannot be read: there are too many parameters")
	default:
		return nil
	}
}

// wellEscaped reports whether every percent sign of s begins an escape.
func wellEscaped(s string) bool {
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			return true
		}
		if s = s[i+1:]; !beginsHex(s) {
			return false
		}
	}
}

func beginsHex(s string) bool { return len(s) >= 2 && isHex(s[0]) && isHex(s[1]) }

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
