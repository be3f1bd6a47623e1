package resolver

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/trafficguard-go/trafficguard/guard"
)

// Value identifies the client by what is stored under key on the framework's context. Prefer it to everything that
// a client says about itself: authenticating middleware stores there what it has verified. That middleware must run
// before the guard. The kind is "value:" and the key.
//
// The value may be of a string or integer type, a named one too; both count by what they hold, whatever their String
// method says. Of other types, a [fmt.Stringer] counts by its text. An integer is an identity even if it is 0. Nothing
// stored, nil, and a blank text are absent.
//
// Anything else is the application's fault and answered with 503, lest an unexpected type mean no limit. That includes
// float64, as which some JWT libraries return numbers: it does not hold every integer. The type is named in
// [Fault.Cause].
//
// An integer takes one allocation, a string none.
func Value(key string) Func {
	mustBuild("Value", checkName("the key", key))
	kind := "value:" + key
	return func(x guard.Exchange) (Subject, error) {
		v := x.Value(key)
		text, ok := identity(v)
		if !ok {
			return Subject{}, misapplied(fmt.Errorf(
				"resolver: the value %q is a %T, not a string, an integer or a fmt.Stringer", key, v))
		}
		return textSubject(kind, text, "the client's identity")
	}
}

// identity returns the text of v, "" if there is nothing, and whether v can identify anybody. Strings and integers
// come before Stringer: a String method may redact or embellish.
func identity(v any) (text string, ok bool) {
	if s, isString := v.(string); isString || v == nil {
		return s, true
	}
	rv := reflect.ValueOf(v)
	switch {
	case rv.Kind() == reflect.String:
		return rv.String(), true
	case rv.CanInt():
		return strconv.FormatInt(rv.Int(), 10), true
	case rv.CanUint():
		return strconv.FormatUint(rv.Uint(), 10), true
	}
	s, ok := v.(fmt.Stringer)
	if !ok || isNil(rv) {
		return "", ok
	}
	return s.String(), true
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		return v.IsNil()
	default:
		return false
	}
}
