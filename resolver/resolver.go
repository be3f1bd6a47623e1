// Package resolver finds out who is calling. A resolver turns an exchange into a [Subject], or says that the
// request names nobody (absent), that it is to be let pass (exempt), or that what it says is malformed or
// ambiguous (a [Fault], which is the client's, mostly a 400).
//
// The rule behind all of them: what the limiter reads must be what the handler reads. Where a request could be
// read in two ways it is refused, never guessed, since a client could otherwise show one identity to the limiter and
// another to the handler.
package resolver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/trafficguard-go/trafficguard/guard"
)

// A Func says who is calling. It returns the zero Subject where the request does not say. An error is a [*Fault]
// where the request is to blame, and anything else where the resolver could not do its work: then the
// policy's failure mode decides.
//
// A Func must be safe for concurrent use. Write your own where the ones of this package do not serve.
type Func func(x guard.Exchange) (Subject, error)

// A Subject is who is counted. The zero Subject is nobody: absent. So is one without a Value, or all who send none would
// share a budget; to count all together there is [Everyone].
type Subject struct {
	// Kind tells subjects of different sources apart: user 7 and tenant 7 have nothing in common. It comes from the
	// program. The resolvers of this package set "value:user_id", "header:X-User-Id", "body:userId", "path:id",
	// "query:user", "form:user", "ip", "everyone"; [As] sets one of your own.
	Kind string
	// Value is the identity itself.
	Value string

	exempt, everyone bool
}

// Exempt is the Subject of a request that the policy lets pass without counting it.
var Exempt = Subject{Kind: "exempt", exempt: true}

// IsExempt reports whether s is [Exempt].
func (s Subject) IsExempt() bool { return s.exempt }

// IsAbsent reports whether the request says nothing about who is calling.
func (s Subject) IsAbsent() bool { return s.Value == "" && !s.exempt && !s.everyone }

// A Fault says what is wrong with a request. It is an error, and it is told to the client.
type Fault struct {
	// Status is 400, 413 or 415; 503 where the application itself is at fault.
	Status int
	// Detail is for the client's developer. It repeats nothing that the client sent.
	Detail string
	// Cause is for the application's own log and never for the client. It may be nil.
	Cause error
}

// Error returns the detail.
func (f *Fault) Error() string { return f.Detail }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// invalid returns the fault of a malformed or ambiguous request.
func invalid(detail string) *Fault { return &Fault{Status: http.StatusBadRequest, Detail: detail} }

// misapplied returns the fault of an application that keeps the resolver from its work. What is wrong is nothing
// that a client should learn.
func misapplied(cause error) *Fault {
	return &Fault{Status: http.StatusServiceUnavailable, Detail: "the service cannot identify clients", Cause: cause}
}

// textSubject returns the subject of this kind, absent if value is blank. what names the source in a fault.
func textSubject(kind, value, what string) (Subject, error) {
	if strings.TrimSpace(value) == "" {
		return Subject{}, nil
	}
	if !utf8.ValidString(value) {
		return Subject{}, invalid(what + " is not valid UTF-8")
	}
	return Subject{Kind: kind, Value: value}, nil
}

// mustBuild panics with all faults of a constructor's arguments at once.
func mustBuild(constructor string, faults ...error) {
	if err := errors.Join(faults...); err != nil {
		panic("resolver: " + constructor + ": " + err.Error())
	}
}

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s %q is not valid UTF-8", what, name)
	}
	return nil
}

func checkFuncs(rs ...Func) error {
	if len(rs) == 0 {
		return errors.New("no resolver is given")
	}
	var faults []error
	for i, r := range rs {
		if r == nil {
			faults = append(faults, fmt.Errorf("resolver %d is nil", i+1))
		}
	}
	return errors.Join(faults...)
}
