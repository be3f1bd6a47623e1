package resolver_test

import (
	"bytes"
	stdlog "log"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

const forwardedFor = "X-Forwarded-For"

// from is a request over a connection from peer, with these lines of X-Forwarded-For.
func from(peer string, lines ...string) *exchange {
	x := with(forwardedFor, lines...)
	x.req.RemoteAddr = peer
	return x
}

func TestClientIPWithoutProxies(t *testing.T) {
	t.Parallel()
	check(t, resolver.ClientIP(), []rule{
		{"IPv4", from("192.0.2.10:1234"), "ip=192.0.2.10"},
		{"a peer without port, as other middleware sets it", from("192.0.2.10"), "ip=192.0.2.10"},
		{"IPv4-mapped is IPv4", from("[::ffff:192.0.2.10]:1234"), "ip=192.0.2.10"},
		{"IPv4-mapped in hexadecimal is IPv4", from("[::ffff:c000:20a]:1234"), "ip=192.0.2.10"},
		{"IPv6 by /64", from("[2001:db8:1:2:3:4:5:6]:1234"), "ip=2001:db8:1:2::/64"},
		{"a zone does not count", from("[fe80::1%eth0]:1234"), "ip=fe80::/64"},
		{"IPv6 without brackets", from("2001:db8::1"), "ip=2001:db8::/64"},
		{"a header is not believed", from("192.0.2.10:1234", "198.51.100.1"), "ip=192.0.2.10"},
		{"a malformed header is not looked at", from("192.0.2.10:1234", "unknown"), "ip=192.0.2.10"},
		{"a Unix socket has no address", from("@"), "absent"},
		{"no address at all", from(""), "absent"},
	})
}

func TestClientIPSpoofed(t *testing.T) {
	t.Parallel()
	r := resolver.ClientIP()
	for _, name := range []string{forwardedFor, "X-Real-Ip", "True-Client-Ip", "Forwarded", "Cf-Connecting-Ip"} {
		x := with(name, "for=198.51.100.1")
		x.req.RemoteAddr = "203.0.113.7:99"
		if got := answer(r, x); got != "ip=203.0.113.7" {
			t.Errorf("%s made it %s", name, got)
		}
	}
}

func TestClientIPBehindProxies(t *testing.T) {
	t.Parallel()
	const proxy = "127.0.0.1:5555"
	check(t, resolver.ClientIP(resolver.TrustedProxies("127.0.0.1", "10.0.0.0/8"), resolver.TrustedProxies("2001:db8:f::/48")), []rule{
		{"the right-most", from(proxy, "198.51.100.1, 203.0.113.7"), "ip=203.0.113.7"},
		{"the right-most that is not trusted", from(proxy, "198.51.100.1, 203.0.113.7, 10.1.1.1,10.2.2.2"), "ip=203.0.113.7"},
		{"over all lines", from(proxy, "198.51.100.1, 203.0.113.7", "10.1.1.1", "10.2.2.2"), "ip=203.0.113.7"},
		{"the last line first", from(proxy, "198.51.100.1", "203.0.113.7"), "ip=203.0.113.7"},
		{"all trusted: the left-most", from(proxy, "10.3.3.3, 10.1.1.1", "10.2.2.2"), "ip=10.3.3.3"},
		{"no header: the peer", from(proxy), "ip=127.0.0.1"},
		{"an empty header: the peer", from(proxy, ""), "ip=127.0.0.1"},
		{"empty entries are no entries", from(proxy, ",, 203.0.113.7 ,,10.1.1.1,", " "), "ip=203.0.113.7"},
		{"an entry with a port", from(proxy, "203.0.113.7:4711"), "ip=203.0.113.7"},
		{"IPv6", from(proxy, "2001:db8::1"), "ip=2001:db8::/64"},
		{"IPv6 in brackets", from(proxy, "[2001:db8::1]"), "ip=2001:db8::/64"},
		{"IPv6 with a port", from(proxy, "[2001:db8::1]:4711"), "ip=2001:db8::/64"},
		{"IPv6 with a zone", from(proxy, "fe80::1%eth0"), "ip=fe80::/64"},
		{"an IPv6 proxy", from(proxy, "203.0.113.7, 2001:db8:f::1"), "ip=203.0.113.7"},
		{"an IPv6 proxy with a zone", from("[2001:db8:f::1%eth0]:1", "203.0.113.7, 2001:db8:f::2%eth0"), "ip=203.0.113.7"},
		{"an IPv4-mapped proxy", from("[::ffff:10.0.0.1]:1", "203.0.113.7, ::ffff:a01:101"), "ip=203.0.113.7"},
		{"IPv4-mapped", from(proxy, "::ffff:192.0.2.10"), "ip=192.0.2.10"},
		{"IPv4-mapped in hexadecimal", from(proxy, "::ffff:c000:20a"), "ip=192.0.2.10"},
		{"translated by a NAT64", from(proxy, "64:ff9b::192.0.2.10"), "ip=192.0.2.10"},
		{"translated by a NAT64, in hexadecimal", from(proxy, "[64:FF9B:0::c000:20a]:1"), "ip=192.0.2.10"},
		{"the next block is no NAT64's", from(proxy, "64:ff9b::1:192.0.2.10"), "ip=64:ff9b::/64"},
		{"the local block of NAT64s has addresses in many places", from(proxy, "64:ff9b:1::192.0.2.10"), "ip=64:ff9b:1::/64"},
		{"a translated proxy is not the proxy", from(proxy, "203.0.113.7, 64:ff9b::10.1.1.1"), "ip=10.1.1.1"},
		{"nor is a translated peer", from("[64:ff9b::10.1.1.1]:1", "203.0.113.7"), "ip=10.1.1.1"},
		{"not IPv4-mapped, though it looks so", from(proxy, "::fffe:192.0.2.10"), "ip=::/64"},
		{"a peer that is not trusted", from("192.0.2.99:1", "203.0.113.7"), "ip=192.0.2.99"},
		{"what the client wrote is not looked at", from(proxy, "unknown, 203.0.113.7"), "ip=203.0.113.7"},
		{"an obfuscated hop", from(proxy, "203.0.113.7, unknown"), "400"},
		{"an unreadable hop behind a trusted one", from(proxy, "_secret, 10.1.1.1"), "400"},
		{"leading zeros, which some read as octal", from(proxy, "203.0.113.07"), "400"},
		{"a port that is none", from(proxy, "203.0.113.7:http"), "400"},
		{"a port that is too long", from(proxy, "203.0.113.7:123456"), "400"},
		{"a port that is missing", from(proxy, "203.0.113.7:"), "400"},
		{"a bracket that is missing", from(proxy, "[2001:db8::1"), "400"},
		{"IPv4 in brackets", from(proxy, "[203.0.113.7]"), "400"},
		{"something behind the bracket", from(proxy, "[2001:db8::1]x"), "400"},
		{"an element of Forwarded", from(proxy, "for=203.0.113.7"), "400"},
	})
}

func TestClientIPOptions(t *testing.T) {
	t.Parallel()
	trust := resolver.TrustedProxies("::ffff:127.0.0.0/104", "::ffff:10.0.0.1")
	check(t, resolver.ClientIP(trust), []rule{
		{"an IPv4-mapped prefix is an IPv4 prefix", from("127.9.9.9:1", "203.0.113.7"), "ip=203.0.113.7"},
		{"an IPv4-mapped address is an IPv4 address", from("10.0.0.1:1", "203.0.113.7"), "ip=203.0.113.7"},
		{"and no more than that", from("10.0.0.2:1", "203.0.113.7"), "ip=10.0.0.2"},
	})
	custom := with("Fly-Client-Ip", "203.0.113.7").with(forwardedFor, "198.51.100.1")
	custom.req.RemoteAddr = "127.0.0.1:1"
	check(t, resolver.ClientIP(trust, resolver.ForwardedHeader("fly-client-ip")), []rule{
		{"only the header that was named", custom, "ip=203.0.113.7"},
	})
	check(t, resolver.ClientIP(resolver.IPv6Prefix(48)), []rule{
		{"IPv6 by /48", from("[2001:db8:1:2::1]:1"), "ip=2001:db8:1::/48"},
		{"IPv4 as ever", from("192.0.2.10:1"), "ip=192.0.2.10"},
	})
	check(t, resolver.ClientIP(resolver.IPv6Prefix(128)), []rule{
		{"a zone does not count", from("[2001:db8::1%eth0]:1"), "ip=2001:db8::1"},
		{"translated by a NAT64", from("[64:ff9b::c000:20a]:1"), "ip=192.0.2.10"},
		{"IPv6 by address, in its one spelling", from("[2001:DB8:0:0::0001]:1"), "ip=2001:db8::1"},
	})
	check(t, resolver.ClientIP(resolver.TrustedProxies()), []rule{
		{"an empty list trusts nobody", from("127.0.0.1:1", "203.0.113.7"), "ip=127.0.0.1"},
	})
}

func TestClientIPRefusesAtConstruction(t *testing.T) {
	t.Parallel()
	panics(t, func() {
		resolver.ClientIP(resolver.TrustedProxies("10.0.0.0/8", "10.0.0.0/99", "proxy.local", "fe80::1%eth0", "::ffff:10.0.0.0/64"),
			resolver.ForwardedHeader("forwarded"), resolver.IPv6Prefix(0), resolver.Logger(nil), nil)
	}, `"10.0.0.0/99"`, `"proxy.local"`, `"fe80::1%eth0"`, `"::ffff:10.0.0.0/64"`, "Forwarded", "IPv6Prefix 0", "logger is nil", "option 5 is nil")
	panics(t, func() { resolver.ClientIP(resolver.ForwardedHeader("")) }, "name is empty")
	panics(t, func() { resolver.ClientIP(resolver.IPv6Prefix(129)) }, "IPv6Prefix 129")
}

func TestClientIPReportsAHeaderThatIsNotBelieved(t *testing.T) {
	t.Parallel()
	request := func(peer, name string) *exchange {
		x := with(name, "198.51.100.1")
		x.req.RemoteAddr = peer
		return x
	}
	for _, c := range []struct {
		why  string
		x    *exchange
		want int
	}{
		{"a private peer", request("10.0.0.1:1", forwardedFor), 1},
		{"loopback", request("127.0.0.1:1", "X-Real-Ip"), 1},
		{"loopback, mapped", request("[::ffff:127.0.0.1]:1", "Forwarded"), 1},
		{"a unique local address", request("[fd00::1]:1", forwardedFor), 1},
		{"a public peer forges", request("203.0.113.7:1", forwardedFor), 0},
		{"a trusted peer", request("10.9.9.9:1", forwardedFor), 0},
		{"no such header", request("10.0.0.1:1", "X-Other"), 0},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			r := resolver.ClientIP(resolver.TrustedProxies("10.9.9.9"), resolver.Logger(slog.New(slog.NewTextHandler(&out, nil))))
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { _, _ = r(c.x) })
			}
			wg.Wait()
			if got := strings.Count(out.String(), "level=WARN"); got != c.want {
				t.Errorf("%d reports, want %d: %s", got, c.want, &out)
			}
			if strings.Contains(out.String(), "198.51.100.1") {
				t.Errorf("an address is in the log: %s", &out)
			}
		})
	}
}

func TestClientIPReportsToTheDefaultLogger(t *testing.T) { // not parallel: the default is global
	var out bytes.Buffer
	before, writer, flags := slog.Default(), stdlog.Default().Writer(), stdlog.Default().Flags()
	defer func() {
		slog.SetDefault(before)
		stdlog.Default().SetOutput(writer) // slog.SetDefault redirects it and does not undo that
		stdlog.Default().SetFlags(flags)
	}()
	r := resolver.ClientIP()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	_, _ = r(from("127.0.0.1:1", "198.51.100.1"))
	if !strings.Contains(out.String(), "resolver.TrustedProxies") {
		t.Errorf("the log has %q", &out)
	}
}

// Whatever a client sends, the address to the right of it is the trusted proxy's word and counts.
func FuzzClientIP(f *testing.F) {
	for _, s := range []string{"", "unknown", "10.0.0.1", "198.51.100.1", "[::1]:80", ",,", "1.2.3.4%x", "::ffff:1.2.3.4", "[1:2"} {
		f.Add(s)
	}
	r := resolver.ClientIP(resolver.TrustedProxies("127.0.0.1", "10.0.0.0/8"))
	f.Fuzz(func(t *testing.T, sent string) {
		if got := answer(r, from("127.0.0.1:1", sent+", 203.0.113.7")); got != "ip=203.0.113.7" {
			t.Fatalf("%q made it %s", sent, got)
		}
		for _, x := range []*exchange{from("127.0.0.1:1", sent), from(sent)} {
			s, err := r(x)
			if err == nil && !s.IsAbsent() && (s.Kind != "ip" || s.Value == "" || len(s.Value) > 50) {
				t.Fatalf("%q gave %+v", sent, s)
			}
		}
	})
}
