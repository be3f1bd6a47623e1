package resolver

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"sync"

	"github.com/trafficguard-go/trafficguard/guard"
)

// Hashed counts by a keyed hash of what r finds, so that the store never sees it: for values that identify people
// or are secret, such as e-mail addresses and API keys. The value becomes the first 192 bits of HMAC-SHA256 over kind
// and value, in base64url; the kind stays.
//
// The secret has at least 16 bytes, all random, and is the same in all instances of the application; it is copied.
// Another secret makes everybody a new client. Who has the secret can find out values by trying them.
func Hashed(secret []byte, r Func) Func {
	var fault error
	if len(secret) < 16 {
		fault = fmt.Errorf("the secret has %d bytes, fewer than 16", len(secret))
	}
	mustBuild("Hashed", fault, checkFuncs(r))
	secret = bytes.Clone(secret)
	pool := &sync.Pool{New: func() any { return &hasher{mac: hmac.New(sha256.New, secret)} }}
	return func(x guard.Exchange) (Subject, error) {
		s, ok, err := present(r, x)
		if !ok {
			return s, err
		}
		h := pool.Get().(*hasher)
		s.Value = h.hash(s)
		pool.Put(h)
		return s, nil
	}
}

// A hasher has what one hash takes, to be used again.
type hasher struct {
	mac hash.Hash
	buf []byte
}

const (
	hashBytes  = 24
	keepBuffer = 4 << 10 // a larger one, from a huge value, is not worth keeping
)

func (h *hasher) hash(s Subject) string {
	b := strconv.AppendInt(h.buf[:0], int64(len(s.Kind)), 10)
	b = append(append(append(b, ':'), s.Kind...), s.Value...)
	h.mac.Reset()
	h.mac.Write(b)
	clear(b) // the value must not stay around
	b = h.mac.Sum(b[:0])
	var text [hashBytes * 4 / 3]byte
	base64.RawURLEncoding.Encode(text[:], b[:hashBytes])
	if h.buf = b; cap(b) > keepBuffer {
		h.buf = nil
	}
	return string(text[:])
}
