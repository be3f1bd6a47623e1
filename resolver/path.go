package resolver

import (
	"fmt"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// PathParam identifies the client by a parameter of the route's pattern: "id" of "/users/:id". The client chooses it
// freely; see [Value] for what it cannot choose. The kind is "path:" and the name. An empty or blank parameter is
// absent, and so is one that the pattern does not have. Invalid UTF-8 is answered with 400.
//
// The value is what the framework's own accessor returns, which is what the handler reads. One that holds a percent
// escape is answered with 400, because some handlers decode it once more and others do not. Gin and net/http return
// values decoded, so that only "%2531" leads there. Echo leaves them as they were sent: "/users/ann%40example.org" is
// refused, unless the router of Echo v5 is told to decode with RouterConfig.UnescapePathParamValues.
//
// Different texts are different subjects. Where the handler parses a number, wrap it in [Integer]: "1", "01" and "+1"
// have three quotas otherwise.
func PathParam(name string) Func {
	mustBuild("PathParam", checkName("the parameter's name", name))
	kind, what := "path:"+name, fmt.Sprintf("the path parameter %q", name)
	return func(x guard.Exchange) (Subject, error) {
		value := x.PathParam(name)
		if hasEscape(value) {
			return Subject{}, invalid(what + " is ambiguous: it has a percent escape")
		}
		return textSubject(kind, value, what)
	}
}

// hasEscape reports whether decoding could change s.
func hasEscape(s string) bool {
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			return false
		}
		if s = s[i+1:]; beginsHex(s) {
			return true
		}
	}
}
