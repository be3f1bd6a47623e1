package resolver

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// Query identifies the client by a parameter of the query string. The client chooses it freely; see [Value] for what
// it can not choose. The kind is "query:" and the name. A missing or blank parameter is absent.
//
// It answers 400 where two readers could differ: if the parameter is given more than once, also in another case
// (Echo's binder takes "USER" for "user"), if its value is not valid UTF-8, and if anything in the query string is
// malformed, a semicolon for instance, since [url.URL.Query] drops such pairs silently.
//
// It does not allocate where the query string has no escapes.
func Query(name string) Func {
	mustBuild("Query", checkName("the parameter's name", name))
	kind, what := "query:"+name, fmt.Sprintf("the query parameter %q", name)
	return func(x guard.Exchange) (Subject, error) {
		value, _, err := lookup(x.Request().URL.RawQuery, name, what)
		if err != nil {
			return Subject{}, err
		}
		return textSubject(kind, value, what)
	}
}

// maxPairs is the number of pairs above which url.ParseQuery returns none of them.
const maxPairs = 10_000

// lookup returns the value of name in urlencoded text, and whether name is there. It reads as url.ParseQuery does,
// and refuses what that would drop.
func lookup(encoded, name, what string) (value string, found bool, err error) {
	if encoded == "" {
		return "", false, nil
	}
	if strings.Count(encoded, "&") >= maxPairs {
		return "", false, invalid(what + " can not be read: there are too many parameters")
	}
	for more := true; more; {
		var pair string
		pair, encoded, more = strings.Cut(encoded, "&")
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(rawKey)
		if err != nil || strings.Contains(pair, ";") || !wellEscaped(rawValue) {
			return "", false, invalid(what + " can not be read: the parameters are malformed")
		}
		switch {
		case !strings.EqualFold(key, name):
			continue
		case key != name:
			return "", false, invalid(what + " is ambiguous: it is spelled in another case")
		case found:
			return "", false, invalid(what + " is given more than once")
		}
		found = true
		value, _ = url.QueryUnescape(rawValue) // it is well escaped
	}
	return value, found, nil
}

// wellEscaped reports whether every percent sign of s begins an escape.
func wellEscaped(s string) bool {
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			return true
		}
		if len(s) < i+3 || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return false
		}
		s = s[i+3:]
	}
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
