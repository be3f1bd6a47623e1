package resolver_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

// jsonOf returns an object of about size bytes whose last member is the one that is wanted.
func jsonOf(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i := 0; b.Len() < size-100; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"A-%06d","count":%d,"note":"a \"quoted\" word"}`, i, i%7)
	}
	b.WriteString(`],"user":{"name":"Ann","id":"0198a7c2-6c1e-7d5a-9f40-1b2c3d4e5f60"}}`)
	return b.Bytes()
}

func benchmark(b *testing.B, r resolver.Func, x *exchange) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if s, err := r(x); err != nil || s.IsAbsent() {
			b.Fatal(s, err)
		}
	}
}

func BenchmarkHeader(b *testing.B) {
	benchmark(b, resolver.Header("X-User-Id"), with("X-User-Id", "u1"))
}

func BenchmarkValue(b *testing.B) { benchmark(b, resolver.Value("user_id"), storing("user_id", "u1")) }

func BenchmarkQuery(b *testing.B) {
	benchmark(b, resolver.Query("user"), query("page=2&user=u1&sort=asc"))
}

func BenchmarkClientIP(b *testing.B) {
	b.Run("peer", func(b *testing.B) { benchmark(b, resolver.ClientIP(), from("192.0.2.10:4711")) })
	b.Run("peer6", func(b *testing.B) { benchmark(b, resolver.ClientIP(), from("[2001:db8::1]:4711")) })
	proxies := resolver.TrustedProxies("127.0.0.0/8", "10.0.0.0/8", "192.168.0.0/16")
	b.Run("proxies", func(b *testing.B) {
		benchmark(b, resolver.ClientIP(proxies), from("127.0.0.1:1", "198.51.100.1, 203.0.113.7, 10.0.0.1"))
	})
}

func BenchmarkJoin(b *testing.B) {
	benchmark(b, resolver.Join(resolver.Header("X-Tenant"), resolver.ClientIP()), with("X-Tenant", "shop"))
}

func BenchmarkHashed(b *testing.B) {
	benchmark(b, resolver.Hashed(secret, resolver.Header("X-Api-Key")), with("X-Api-Key", "k-0123456789"))
}

func BenchmarkBodyField(b *testing.B) {
	r := resolver.BodyField("user.id")
	for name, size := range map[string]int{"200B": 200, "20kB": 20_000} {
		b.Run(name, func(b *testing.B) {
			body, src := jsonOf(size), bytes.NewReader(nil)
			x := object("")
			x.req.ContentLength = int64(len(body))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(body)
				x.req.Body = nopCloser{src}
				if s, err := r(x); err != nil || s.IsAbsent() {
					b.Fatal(s, err)
				}
			}
		})
	}
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }
