package guard

import (
	"errors"
	"reflect"
)

// What a policy may also say of itself. The chain asks once, when it is built, and looks through policies that wrap
// another: those of [FailOpen], [FailClosed] and [TrafficGuard.Policy], those with a method Unwrap() GuardPolicy, and
// structs that embed a GuardPolicy.
type (
	// Named is a policy with a name of its own. "" means that it has none.
	Named interface{ PolicyName() string }
	// Failing is a policy with a failure mode of its own. [Inherit] means that it has none.
	Failing interface{ FailureMode() FailureMode }
	// Requiring is a policy that asks for what costs something.
	Requiring interface{ Requires() Requirement }
)

// FailOpen returns p with the failure mode [Open], whatever p or the TrafficGuard says. p keeps its name and
// all its other properties.
func FailOpen(p GuardPolicy) GuardPolicy { return moded{p, Open} }

// FailClosed returns p with the failure mode [Closed], whatever p or the TrafficGuard says. p keeps its name
// and all its other properties.
func FailClosed(p GuardPolicy) GuardPolicy { return moded{p, Closed} }

// moded is a policy with another failure mode.
type moded struct {
	GuardPolicy
	mode FailureMode
}

func (m moded) FailureMode() FailureMode { return m.mode }

// registered is a policy with the name that a TrafficGuard has for it.
type registered struct {
	GuardPolicy
	name     string
	explicit bool // by Register
}

// wrapped returns the policy that p wraps, nil if it wraps none.
func wrapped(p GuardPolicy) GuardPolicy {
	switch w := p.(type) {
	case moded:
		return w.GuardPolicy
	case *registered:
		return w.GuardPolicy
	case interface{ Unwrap() GuardPolicy }:
		return w.Unwrap()
	}
	v := reflect.Indirect(reflect.ValueOf(p))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Anonymous && f.Type == reflect.TypeFor[GuardPolicy]() {
			inner, _ := reflect.TypeAssert[GuardPolicy](v.Field(i))
			return inner
		}
	}
	return nil
}

// find returns the outermost policy in p that is a T.
func find[T any](p GuardPolicy) (found T, ok bool) {
	for ; p != nil; p = wrapped(p) {
		if found, ok = p.(T); ok {
			return found, true
		}
	}
	return found, false
}

// bare takes off what this package has put around a policy, but not what an application has.
func bare(p GuardPolicy) GuardPolicy {
	for {
		switch w := p.(type) {
		case moded:
			p = w.GuardPolicy
		case *registered:
			p = w.GuardPolicy
		default:
			return p
		}
	}
}

// core returns the innermost policy of p, which is what has a state.
func core(p GuardPolicy) GuardPolicy {
	for inner := wrapped(p); inner != nil; inner = wrapped(p) {
		p = inner
	}
	return p
}

// same reports whether a and b are one policy. Values that cannot be compared are never the same, unless they are
// registered as one.
func same(a, b GuardPolicy) bool {
	if r, ok := find[*registered](a); ok {
		if other, ok := find[*registered](b); ok && r == other {
			return true
		}
	}
	a, b = core(a), core(b)
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// identical reports whether p is what held was registered with, wrappers and all.
func identical(held *registered, p GuardPolicy) bool {
	return reflect.ValueOf(p).Comparable() && reflect.ValueOf(held.GuardPolicy).Comparable() && p == held.GuardPolicy
}

func checkPolicy(p GuardPolicy) error {
	if p = bare(p); p == nil {
		return errors.New("the policy is nil")
	}
	if v := reflect.ValueOf(p); v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("the policy is a nil pointer")
	}
	return nil
}
