package resolver

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// A Predicate says whether something holds for an exchange. An error means what it means for a [Func]. A Predicate
// must be safe for concurrent use.
type Predicate func(x guard.Exchange) (bool, error)

// ExemptWhen is [Exempt] where p holds and absent elsewhere. Put it before others in [First].
func ExemptWhen(p Predicate) Func {
	var fault error
	if p == nil {
		fault = errors.New("the predicate is nil")
	}
	mustBuild("ExemptWhen", fault)
	return func(x guard.Exchange) (Subject, error) {
		if holds, err := p(x); err != nil || !holds {
			return Subject{}, err
		}
		return Exempt, nil
	}
}

// ValueIs holds where the value that is stored under key on the framework's context equals want. Strings are equal by
// their text and integers by their number, whatever their types; of other values the types must be the same too. want
// must be comparable and not nil.
func ValueIs(key string, want any) Predicate {
	wanted := reflect.ValueOf(want)
	var fault error
	if !wanted.IsValid() || !wanted.Comparable() {
		fault = fmt.Errorf("a value of type %T cannot be compared", want)
	}
	mustBuild("ValueIs", checkName("the key", key), fault)
	return func(x guard.Exchange) (bool, error) {
		v := x.Value(key)
		return v != nil && same(reflect.ValueOf(v), wanted), nil
	}
}

func same(got, want reflect.Value) bool {
	switch {
	case got.Kind() == reflect.String && want.Kind() == reflect.String:
		return got.String() == want.String()
	case got.CanInt() && want.CanInt():
		return got.Int() == want.Int()
	case got.CanUint() && want.CanUint():
		return got.Uint() == want.Uint()
	case got.CanInt() && want.CanUint():
		return sameNumber(got.Int(), want.Uint())
	case got.CanUint() && want.CanInt():
		return sameNumber(want.Int(), got.Uint())
	default:
		return got.Equal(want) // false where the types differ; no panic, since want is comparable
	}
}

func sameNumber(i int64, u uint64) bool {
	return i >= 0 && uint64(i) == u
}

// HeaderIs holds where a request header has exactly this value, surrounding spaces apart. Anybody can send any
// header: the value must be a secret, or a gateway must set the header. The comparison does not tell by its time
// how much of the value was right. More than one line of the name is answered with 400. It panics on the names on
// which [Header] panics, and on an empty value.
func HeaderIs(name, value string) Predicate {
	var fault error
	if value == "" || strings.Trim(value, " \t") != value {
		fault = fmt.Errorf("the value %q is empty or has surrounding spaces, so no header can have it", value)
	}
	mustBuild("HeaderIs", checkHeader(name), fault)
	name = http.CanonicalHeaderKey(name)
	what := "the header " + name
	return func(x guard.Exchange) (bool, error) {
		got, err := oneLine(x.Request().Header, name, what)
		return equalInConstantTime(got, value), err
	}
}

// equalInConstantTime is subtle.ConstantTimeCompare for strings, which would have to be copied for that.
func equalInConstantTime(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	var differ byte
	for i := range len(a) {
		differ |= a[i] ^ b[i]
	}
	return differ == 0
}

// Preflight holds for a CORS preflight: OPTIONS with one Origin and one Access-Control-Request-Method. Browsers send it
// of their own accord and without credentials. Other OPTIONS requests count.
func Preflight() Predicate {
	return func(x guard.Exchange) (bool, error) {
		r := x.Request()
		return r.Method == http.MethodOptions && hasOne(r.Header, "Origin") &&
			hasOne(r.Header, "Access-Control-Request-Method"), nil
	}
}

func hasOne(h http.Header, name string) bool {
	lines := h[name]
	return len(lines) == 1 && lines[0] != ""
}
