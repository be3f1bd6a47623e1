package guard

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A HeaderFormat is a way to tell clients about a quota.
type HeaderFormat uint8

// The formats. Times are whole seconds, rounded up, from now on unless the format says otherwise.
const (
	// NoHeaders tells nothing.
	NoHeaders HeaderFormat = iota
	// IETFDraft11 writes RateLimit-Policy and RateLimit as in draft-ietf-httpapi-ratelimit-headers-11:
	//
	//	RateLimit-Policy: "api";q=100;w=60
	//	RateLimit: "api";r=42;t=35
	//
	// t is the time after which the quota is whole again, or on a refusal the Retry-After. The draft is
	// still moving, so the format carries its number and a later one will be another constant.
	IETFDraft11
	// RateLimitHeaders writes RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, as the drafts
	// before 07 did.
	RateLimitHeaders
	// XRateLimit writes X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
	XRateLimit
	// XRateLimitEpoch is XRateLimit with the reset as seconds since 1970, as GitHub has it.
	XRateLimitEpoch
)

// IETF is the newest version of the IETF's fields that this release writes.
const IETF = IETFDraft11

// A Quota is what a client may be told about a limit. It is a value; the zero Quota tells nothing.
type Quota struct {
	// Format is how it is told.
	Format HeaderFormat
	// Concurrent says that the quota counts requests at a time, not requests over time.
	Concurrent bool
	// Limit is how much there is in all, Remaining how much of it is left.
	Limit, Remaining int64
	// Window is the time in which Limit is allotted; 0 where there is no such time.
	Window time.Duration
	// Reset is the time after which, without further requests, all of Limit is there again.
	Reset time.Duration
}

// unnamed stands for a policy without a name where a field must have one.
const unnamed = "default"

// maxInteger is the largest Integer of RFC 9651.
const maxInteger = 999_999_999_999_999

// write sets the fields of q for the policy called name. It takes two allocations and replaces the fields
// of the same format, whoever wrote them.
func (q Quota) write(h http.Header, name string) {
	switch q.Format {
	case NoHeaders:
	case IETFDraft11:
		q.writeDraft11(h, name)
	case RateLimitHeaders:
		q.writeTriple(h, "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", 0)
	case XRateLimit:
		q.writeTriple(h, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", 0)
	case XRateLimitEpoch:
		q.writeTriple(h, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", time.Now().Unix())
	}
}

func (q Quota) writeDraft11(h http.Header, name string) {
	if name == "" {
		name = unnamed
	}
	var buf [192]byte
	b := append(append(append(buf[:0], '"'), name...), `";r=`...)
	b = strconv.AppendInt(b, clamp(q.Remaining), 10)
	if !q.Concurrent {
		b = strconv.AppendInt(append(b, ";t="...), clamp(seconds(q.Reset)), 10)
	}
	cut := len(b)
	b = append(append(append(b, '"'), name...), `";q=`...)
	b = strconv.AppendInt(b, clamp(q.Limit), 10)
	if q.Concurrent {
		b = append(b, `;qu="concurrent-requests"`...)
	} else if w := seconds(q.Window); w > 0 {
		b = strconv.AppendInt(append(b, ";w="...), clamp(w), 10)
	}
	s := string(b)
	v := []string{s[:cut], s[cut:]}
	h["Ratelimit"], h["Ratelimit-Policy"] = v[0:1:1], v[1:2:2]
}

func (q Quota) writeTriple(h http.Header, limit, remaining, reset string, epoch int64) {
	var buf [64]byte
	b := strconv.AppendInt(buf[:0], clamp(q.Limit), 10)
	i := len(b)
	b = strconv.AppendInt(b, clamp(q.Remaining), 10)
	j := len(b)
	b = strconv.AppendInt(b, clamp(epoch+seconds(q.Reset)), 10)
	s := string(b)
	v := []string{s[:i], s[i:j], s[j:]}
	h[limit], h[remaining], h[reset] = v[0:1:1], v[1:2:2], v[2:3:3]
}

func clamp(n int64) int64 { return max(0, min(n, maxInteger)) }

// tighter reports whether a client that respects q respects o too.
func (q Quota) tighter(o Quota) bool {
	return q.Remaining < o.Remaining || q.Remaining == o.Remaining && q.Reset > o.Reset
}

// shown returns what is left by the fields that an outer chain has written in q's format, and whether
// there are any: group and route each have a chain, and the tighter one must win.
func (q Quota) shown(h http.Header) (int64, bool) {
	var field string
	switch q.Format {
	case IETFDraft11:
		if v := h["Ratelimit"]; len(v) == 1 {
			_, field, _ = strings.Cut(v[0], `";r=`)
			field, _, _ = strings.Cut(field, ";")
		}
	case RateLimitHeaders:
		field = h.Get("Ratelimit-Remaining")
	case XRateLimit, XRateLimitEpoch:
		field = h.Get("X-Ratelimit-Remaining")
	case NoHeaders:
	}
	if field == "" { // the usual case: the error that it would make costs an allocation
		return 0, false
	}
	n, err := strconv.ParseInt(field, 10, 64)
	return n, err == nil
}
