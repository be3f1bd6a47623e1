package resolver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/trafficguard-go/trafficguard/guard"
)

// An IPOption changes what [ClientIP] believes and counts.
type IPOption func(*clientIP)

// TrustedProxies names the proxies whose forwarding header is believed, by CIDR or single address. The default is
// none. Name every hop of your own between the client and the application, and nothing else: who is
// trusted can claim any address. It may be given more than once.
func TrustedProxies(cidrs ...string) IPOption {
	return func(c *clientIP) {
		for _, s := range cidrs {
			p, err := parsePrefix(s)
			if err != nil {
				c.faults = append(c.faults, err)
			}
			c.trusted = append(c.trusted, p)
		}
	}
}

// ForwardedHeader names the header that the trusted proxies set, instead of X-Forwarded-For. It must be a list
// of addresses to which each proxy appends, or a single address. The Forwarded header of RFC 7239 is
// neither and is refused.
func ForwardedHeader(name string) IPOption {
	return func(c *clientIP) {
		c.header = http.CanonicalHeaderKey(name)
		if err := checkHeader(name); err != nil {
			c.faults = append(c.faults, err)
		} else if c.header == "Forwarded" {
			c.faults = append(c.faults, errors.New("the header Forwarded is not a list of addresses"))
		}
	}
}

// IPv6Prefix sets how many leading bits of an IPv6 address count, from 1 to 128. The default is 64, which is what one
// subscriber gets at least; with 128 each of them has 2^64 identities.
func IPv6Prefix(bits int) IPOption {
	return func(c *clientIP) {
		if bits < 1 || bits > 128 {
			c.faults = append(c.faults, fmt.Errorf("IPv6Prefix %d is not between 1 and 128", bits))
		}
		c.bits = bits
	}
}

// Logger sets where a forwarding header that is not believed is reported. The default is [slog.Default] at that time.
func Logger(l *slog.Logger) IPOption {
	return func(c *clientIP) {
		if l == nil {
			c.faults = append(c.faults, errors.New("the logger is nil"))
		}
		c.logger = l
	}
}

// ClientIP identifies the client by its address. That is the peer of the connection, unless the peer is one of the
// [TrustedProxies]: then it is the right-most address in all lines of X-Forwarded-For that is not, or the left-most
// if all are, or the peer if there is no such header. What stands left of that address is the client's own writing and
// is not looked at. What the framework trusts plays no part. The kind is "ip".
//
// IPv4-mapped IPv6 addresses count as IPv4, however they are written; zones do not count; IPv6 addresses count by
// their /64, see [IPv6Prefix]. What a NAT64 has translated to 64:ff9b::/96 counts as the IPv4 address in it, but is
// trusted only by its IPv6 address; clients that a NAT64 puts into a prefix of its operator share one /64.
//
// An entry that has to be read and is not an address, with or without a port, is answered with 400; empty
// entries are skipped. A peer that has no address, on a Unix socket for instance, is absent.
//
// A forwarding header from a private or loopback peer that is not trusted is reported to the log once for each
// resolver: it mostly means that TrustedProxies is missing and all clients share the proxy's quota.
//
// An IPv4 client takes no allocation, an IPv6 client one.
func ClientIP(opts ...IPOption) Func {
	c := &clientIP{header: "X-Forwarded-For", bits: 64}
	for i, o := range opts {
		if o == nil {
			c.faults = append(c.faults, fmt.Errorf("option %d is nil", i+1))
			continue
		}
		o(c)
	}
	mustBuild("ClientIP", c.faults...)
	return c.resolve
}

type clientIP struct {
	trusted  []netip.Prefix
	header   string
	bits     int
	logger   *slog.Logger
	reported atomic.Bool
	faults   []error
}

func (c *clientIP) resolve(x guard.Exchange) (Subject, error) {
	r := x.Request()
	peer, ok := parseHop(r.RemoteAddr)
	if !ok {
		return Subject{}, nil
	}
	client := peer
	if !c.trusts(peer) {
		c.report(r, peer.addr)
	} else if client, ok = c.walk(peer, r.Header[c.header]); !ok {
		return Subject{}, invalid("the header " + c.header + " has an entry that is not an address")
	}
	return Subject{Kind: "ip", Value: c.count(client)}, nil
}

func (c *clientIP) trusts(h hop) bool {
	return slices.ContainsFunc(c.trusted, func(p netip.Prefix) bool { return p.Contains(h.addr) })
}

// walk goes from the peer toward the client as far as it may trust who says so.
func (c *clientIP) walk(peer hop, lines []string) (client hop, ok bool) {
	client = peer
	for _, line := range slices.Backward(lines) {
		for rest, more := line, true; more; {
			comma := strings.LastIndexByte(rest, ',')
			entry := strings.Trim(rest[comma+1:], " \t")
			if more = comma >= 0; more {
				rest = rest[:comma]
			}
			if entry == "" {
				continue
			}
			if client, ok = parseHop(entry); !ok || !c.trusts(client) {
				return client, ok
			}
		}
	}
	return client, true
}

// nat64 is 64:ff9b::/96, the well-known prefix of RFC 6052.
const nat64 = "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00"

// count returns the text by which h counts.
func (c *clientIP) count(h hop) string {
	if h.text != "" {
		return h.text
	}
	if whole := h.addr.As16(); string(whole[:12]) == nat64 {
		return netip.AddrFrom4([4]byte(whole[12:])).String()
	}
	if h.addr.Is4() || c.bits == 128 {
		return h.addr.String()
	}
	var buf [len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")]byte
	return string(netip.PrefixFrom(h.addr, c.bits).Masked().AppendTo(buf[:0]))
}

func (c *clientIP) report(r *http.Request, peer netip.Addr) {
	if c.reported.Load() || !peer.IsPrivate() && !peer.IsLoopback() && !peer.IsLinkLocalUnicast() {
		return
	}
	for _, name := range [...]string{c.header, "X-Forwarded-For", "Forwarded", "X-Real-Ip"} {
		if len(r.Header[name]) == 0 || !c.reported.CompareAndSwap(false, true) {
			continue
		}
		logger := c.logger
		if logger == nil {
			logger = slog.Default()
		}
		logger.WarnContext(r.Context(), "trafficguard: a forwarding header from a private peer is not believed; "+
			"if the peer is your proxy, all clients share its limit until you name it with resolver.TrustedProxies",
			"header", name)
		return
	}
}

// A hop is an address without zone, IPv4 where it is mapped.
type hop struct {
	addr netip.Addr
	text string // its only spelling, a part of what was parsed; "" where there may be others
}

// parseHop reads an address with or without a port, and IPv6 with or without brackets.
func parseHop(s string) (hop, bool) {
	host := s
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 || !isPort(s[end+1:]) || strings.IndexByte(s[:end], ':') < 0 {
			return hop{}, false
		}
		host = s[1:end]
	} else if colon := strings.IndexByte(s, ':'); colon >= 0 && colon == strings.LastIndexByte(s, ':') {
		if !isPort(s[colon:]) {
			return hop{}, false
		}
		host = s[:colon]
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return hop{}, false
	}
	if addr.Is4() { // netip takes no leading zeros, so there is only one way to write it
		return hop{addr, host}, true
	}
	return hop{addr: addr.WithZone("").Unmap()}, true
}

// isPort reports whether s is "" or a colon and a port.
func isPort(s string) bool {
	if s == "" {
		return true
	}
	return len(s) > 1 && len(s) <= 6 && s[0] == ':' && strings.Trim(s[1:], "0123456789") == ""
}

// parsePrefix reads a CIDR or an address. An IPv4-mapped one becomes IPv4.
func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		addr, addrErr := netip.ParseAddr(s)
		if addrErr != nil || addr.Zone() != "" {
			return p, fmt.Errorf("the trusted proxy %q is neither a CIDR nor an address", s)
		}
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, fmt.Errorf("the trusted proxy %q covers more than the IPv4-mapped addresses", s)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}
