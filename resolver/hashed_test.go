package resolver_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

var secret = []byte("0123456789abcdef")

func TestHashed(t *testing.T) {
	t.Parallel()
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("10:value:useralice"))
	want := "value:user=" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:24])
	r := resolver.Hashed(secret, alice)
	for range 3 {
		if got := answer(r, get("/")); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHashedTellsApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, r := range map[string]resolver.Func{
		"value":          resolver.Hashed(secret, constant("k", "v")),
		"another value":  resolver.Hashed(secret, constant("k", "w")),
		"another kind":   resolver.Hashed(secret, constant("l", "v")),
		"boundary":       resolver.Hashed(secret, constant("k", "vx")),
		"moved boundary": resolver.Hashed(secret, constant("kv", "x")),
		"another secret": resolver.Hashed([]byte("0123456789abcdeF"), constant("k", "v")),
		"huge":           resolver.Hashed(secret, constant("k", strings.Repeat("v", 1<<20))),
	} {
		s, err := r(get("/"))
		if err != nil || len(s.Value) != 32 {
			t.Errorf("%s: got %+v, %v", name, s, err)
		}
		if other, ok := seen[s.Value]; ok {
			t.Errorf("%s and %s have the same value", name, other)
		}
		seen[s.Value] = name
	}
}

func TestHashedPassesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    resolver.Func
		want string
	}{{absent, "absent"}, {exempt, "exempt"}, {bad, "400"}, {down, "error: down"}} {
		if got := answer(resolver.Hashed(secret, c.r), get("/")); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestHashedCopiesTheSecret(t *testing.T) {
	t.Parallel()
	mine := []byte("0123456789abcdef")
	r := resolver.Hashed(mine, alice)
	clear(mine)
	if got, want := answer(r, get("/")), answer(resolver.Hashed(secret, alice), get("/")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHashedConcurrently(t *testing.T) {
	t.Parallel()
	r := resolver.Hashed(secret, resolver.Header("X-Key"))
	var wg sync.WaitGroup
	for _, key := range []string{"a", "b", "c", "d"} {
		want := answer(r, with("X-Key", key))
		wg.Go(func() {
			for range 200 {
				if got := answer(r, with("X-Key", key)); got != want {
					t.Errorf("%s: got %q, want %q", key, got, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestHashedRefusesAtConstruction(t *testing.T) {
	t.Parallel()
	panics(t, func() { resolver.Hashed(secret[:15], nil) }, "15 bytes, fewer than 16", "resolver 1 is nil")
}
