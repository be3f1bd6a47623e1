package resolver

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// Header identifies the client by a request header. Anybody who reaches the application can send any header: use it
// only behind a gateway that sets it, and removes what the client has sent. Where the value is a secret, an API key
// for instance, wrap it in [Hashed].
//
// The kind is "header:" and the canonical name. Surrounding spaces do not count; a blank or missing header is absent.
// More than one line of the name is ambiguous and answered with 400, as is invalid UTF-8. Different texts are different
// subjects; where the handler parses a number, wrap it in [Integer].
//
// It panics on what is no header's name, and on Host, Trailer and Transfer-Encoding, which net/http takes out of the
// headers. It does not allocate.
func Header(name string) Func {
	mustBuild("Header", checkHeader(name))
	name = http.CanonicalHeaderKey(name)
	kind, what := "header:"+name, "the header "+name
	return func(x guard.Exchange) (Subject, error) {
		value, err := oneLine(x.Request().Header, name, what)
		if err != nil {
			return Subject{}, err
		}
		return textSubject(kind, value, what)
	}
}

// oneLine returns the value of the header with this canonical name, "" if there is none.
func oneLine(h http.Header, name, what string) (string, error) {
	switch lines := h[name]; len(lines) {
	case 0:
		return "", nil
	case 1:
		return strings.Trim(lines[0], " \t"), nil
	default:
		return "", invalid(what + " is given more than once")
	}
}

func checkHeader(name string) error {
	if err := checkName("the header's name", name); err != nil {
		return err
	}
	for i := range len(name) {
		if !isTokenByte(name[i]) {
			return fmt.Errorf("%q is not a header's name", name)
		}
	}
	switch canonical := http.CanonicalHeaderKey(name); canonical {
	case "Host", "Trailer", "Transfer-Encoding":
		return fmt.Errorf("net/http takes %s out of the headers, so it would always be absent", canonical)
	}
	return nil
}

// isTokenByte reports whether RFC 9110 allows c in a header's name.
func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
