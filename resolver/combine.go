package resolver

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/trafficguard-go/trafficguard/guard"
)

// Everyone counts all requests together, whoever sends them: one limit for all. Its kind is "everyone".
func Everyone() Func {
	return func(guard.Exchange) (Subject, error) { return Subject{Kind: "everyone", everyone: true}, nil }
}

// First asks the resolvers in order and returns what the first one says that does not say absent. A fault is
// returned and does not lead to the next: a client must not choose its identity by breaking another one.
//
// One id that is found in two places counts as two subjects, because the kinds differ, unless [As] gives both one kind.
func First(rs ...Func) Func {
	mustBuild("First", checkFuncs(rs...))
	rs = slices.Clone(rs)
	return func(x guard.Exchange) (Subject, error) {
		for _, r := range rs {
			s, err := r(x)
			if err != nil {
				return Subject{}, err
			}
			if !s.IsAbsent() {
				return s, nil
			}
		}
		return Subject{}, nil
	}
}

// As gives the subjects of r another kind: one of your own, or the same to what several resolvers find. A kind has 1
// to 64 letters, digits, and characters of "._:-".
func As(kind string, r Func) Func {
	mustBuild("As", checkKind(kind), checkFuncs(r))
	return func(x guard.Exchange) (Subject, error) {
		s, ok, err := present(r, x)
		if ok {
			s.Kind = kind
		}
		return s, err
	}
}

func checkKind(kind string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"
	if kind == "" || len(kind) > 64 || strings.Trim(kind, allowed) != "" {
		return fmt.Errorf("the kind %q is not 1 to 64 of the characters A-Z a-z 0-9 . _ : -", kind)
	}
	return nil
}

// present asks r and reports whether it has found somebody to count. Where it has not, s and err are to be returned.
func present(r Func, x guard.Exchange) (s Subject, ok bool, err error) {
	s, err = r(x)
	if err != nil {
		return Subject{}, false, err
	}
	return s, !s.IsAbsent() && !s.exempt, nil
}

// Join counts by all of the resolvers together, by tenant and user for instance: different tuples are different
// subjects, whatever characters their parts have. The kind is the kinds of the parts with "+" between them; a part
// that is itself joined stands in parentheses.
//
// The parts are asked in order. The first fault or [Exempt] is the answer; otherwise one that is absent makes the
// whole absent.
func Join(rs ...Func) Func {
	mustBuild("Join", checkFuncs(rs...))
	rs = slices.Clone(rs)
	var kinds kindJoiner
	return func(x guard.Exchange) (Subject, error) {
		var buf [4]Subject
		parts, absent := buf[:0], false
		for _, r := range rs {
			s, err := r(x)
			if err != nil {
				return Subject{}, err
			}
			if s.exempt {
				return s, nil
			}
			absent = absent || s.IsAbsent()
			parts = append(parts, s)
		}
		if absent {
			return Subject{}, nil
		}
		return Subject{Kind: kinds.join(parts), Value: tuple(parts)}, nil
	}
}

// tuple writes the values so that they can be told apart: each with its length before it.
func tuple(parts []Subject) string {
	var buf [128]byte
	b := buf[:0]
	for i := range parts {
		b = strconv.AppendInt(b, int64(len(parts[i].Value)), 10)
		b = append(b, ':')
		b = append(b, parts[i].Value...)
	}
	return string(b)
}

// A kindJoiner joins kinds and remembers the last answer: it is nearly always the same.
type kindJoiner struct {
	last atomic.Pointer[joinedKinds]
}

type joinedKinds struct {
	parts []string
	kind  string
}

func (k *kindJoiner) join(parts []Subject) string {
	last := k.last.Load()
	if last != nil && slices.EqualFunc(last.parts, parts, func(kind string, s Subject) bool { return kind == s.Kind }) {
		return last.kind
	}
	next := new(joinedKinds)
	var b strings.Builder
	for i := range parts {
		kind := parts[i].Kind
		next.parts = append(next.parts, kind)
		if i > 0 {
			b.WriteByte('+')
		}
		if strings.Contains(kind, "+") {
			kind = "(" + kind + ")"
		}
		b.WriteString(kind)
	}
	next.kind = b.String()
	k.last.Store(next)
	return next.kind
}

// Map counts by f of what r finds, to normalise it: strings.ToLower for e-mail addresses of which the application
// ignores the case. Where f returns a blank text the subject is absent. f must be safe for concurrent use.
func Map(r Func, f func(string) string) Func {
	var fault error
	if f == nil {
		fault = errors.New("the function is nil")
	}
	mustBuild("Map", checkFuncs(r), fault)
	return func(x guard.Exchange) (Subject, error) {
		s, ok, err := present(r, x)
		if !ok || s.Value == "" { // Everyone has nothing to normalise
			return s, err
		}
		return textSubject(s.Kind, f(s.Value), "the client's identity")
	}
}
