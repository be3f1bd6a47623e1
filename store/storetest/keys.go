package storetest

import (
	"context"
	"fmt"
	"strings"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

func keyCases() []contract {
	return []contract{
		{"keys never meet", "Two keys that differ in any part share nothing, however their parts could be glued together.", keysNeverMeet},
		{"the same key", "Equal keys are one subject, also where the text is long or no valid UTF-8.", sameKey},
	}
}

// glued returns keys that a careless store would confuse: the same bytes cut at other places, bytes that separate,
// escape or end in some format, and texts that are alike for their first ten thousand bytes.
func glued(run string) []store.Key {
	var keys []store.Key
	add := func(method, pattern, shape, kind, subject string) {
		keys = append(keys, store.Key{Policy: run, Method: method, Pattern: pattern, Shape: shape, Kind: kind, Subject: subject})
	}
	for _, sep := range []string{":", "|", "{", "}", "}{", "%", "%3A", "/", "\\", "\x00", "\n", "\r\n", " ", ",", "=", "\"", "\xff", "\u2028"} {
		add("", "", "", "a", "b"+sep+"c")
		add("", "", "", "a"+sep+"b", "c")
		add("", "", "a", sep+"b", "c")
		add("", "", "", "a", sep)
		add("", "", "", "a", sep+sep)
		add("", "", "", "a"+sep, "")
	}
	for _, text := range []string{"x", "1:x", "x:inflight", "*", "\xff\xfe", "\xff\xfd", "\xef\xbf\xbd", "é", "e\u0301", "X"} {
		add(text, "", "", "", "")
		add("", text, "", "", "")
		add("", "", text, "", "")
		add("", "", "", text, "")
		add("", "", "", "", text)
	}
	long := strings.Repeat("0123456789", 1000)
	add("", "", "", "long", long)
	add("", "", "", "long", long+"0")
	add("", "", "", "long", long+"1")
	add("", "", "", "long", "1"+long)
	add("", "", "", "long", long[:len(long)-1]+"\x00")
	add("GET", "/a/:id", "", "k", "s")
	add("GET", "/a", ":id", "k", "s")
	add("", "GET/a/:id", "", "k", "s")
	add("*", "/a/:id", "", "k", "s")
	empty := store.Key{Policy: run}
	keys = append(keys, empty, store.Key{Policy: run + ":", Kind: "a", Subject: "b"}, store.Key{Policy: run, Kind: ":a", Subject: "b"},
		store.Key{Method: run, Kind: "a", Subject: "b"}, store.Key{Subject: run + "ab"})
	return keys
}

func keysNeverMeet(x *trial) {
	once := rule(x, limit.PerHour(1))
	for _, k := range glued(x.run) {
		s := subject{trial: x, key: k, rule: once}
		if g := s.take(1); !g.OK {
			x.Errorf("%s: refused, met another key", shown(k))
		}
	}
	for _, k := range glued(x.run) {
		s := subject{trial: x, key: k, rule: once}
		if s.take(1).OK {
			x.Errorf("%s: admitted twice", shown(k))
		}
	}
}

func sameKey(x *trial) {
	for _, text := range []string{"", "plain", "\xff\x00\xfe", strings.Repeat("long", 2500)} {
		s := x.subject(text, limit.PerHour(3))
		g := s.admit(1)
		copied := s
		copied.key.Subject = string(append([]byte(nil), text...))
		copied.admit(1)
		s.settle(g, 2)
		copied.left(0)
		if err := x.store.Reset(context.Background(), copied.key); err != nil {
			x.Fatalf("Reset: %v", err)
		}
		s.left(3)
	}
}

// shown returns k in a form that fits a line.
func shown(k store.Key) string {
	text := fmt.Sprintf("%q", []string{k.Policy, k.Method, k.Pattern, k.Shape, k.Kind, k.Subject})
	if len(text) > 200 {
		return fmt.Sprintf("%s... (%d bytes)", text[:200], len(text))
	}
	return text
}
