package resolver

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// PathParam identifies the client by a parameter of the route's pattern: "id" of "/users/:id". The client chooses it
// freely; see [Value] for what it can not choose. The kind is "path:" and the name. An empty or blank parameter is
// absent, and so is one that the pattern does not have. Invalid UTF-8 is answered with 400.
//
// All spellings of one value are one subject: Echo hands out "%31" undecoded for "/users/%31", which counts as "1"
// here, so that escapes do not multiply a quota.
func PathParam(name string) Func {
	mustBuild("PathParam", checkName("the parameter's name", name))
	kind, what := "path:"+name, fmt.Sprintf("the path parameter %q", name)
	return func(x guard.Exchange) (Subject, error) {
		value := x.PathParam(name)
		// A router that matches on RawPath may leave escapes in the parameter, and then the parameter is a part of
		// RawPath. One that has decoded it must not have it decoded again.
		if strings.Contains(value, "%") && strings.Contains(x.Request().URL.RawPath, value) {
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
		}
		return textSubject(kind, value, what)
	}
}
