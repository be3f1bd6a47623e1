package resolver_test

import (
	"math/big"
	"net"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

type (
	userID   string
	number   uint16
	redacted string
	uuid     [2]byte
	account  struct{ id string }
)

func (redacted) String() string   { return "[redacted]" }
func (u uuid) String() string     { return string(u[:]) }
func (a *account) String() string { return a.id }

func TestValue(t *testing.T) {
	t.Parallel()
	check(t, resolver.Value("user_id"), []rule{
		{"a string", storing("user_id", "u1"), "value:user_id=u1"},
		{"a named string", storing("user_id", userID("u1")), "value:user_id=u1"},
		{"a String method that redacts must not merge clients", storing("user_id", redacted("u1")), "value:user_id=u1"},
		{"an int", storing("user_id", 42), "value:user_id=42"},
		{"a negative integer", storing("user_id", int8(-3)), "value:user_id=-3"},
		{"an integer above 2^63", storing("user_id", uint64(1<<64-1)), "value:user_id=18446744073709551615"},
		{"a named integer", storing("user_id", number(7)), "value:user_id=7"},
		{"0 is an identity", storing("user_id", 0), "value:user_id=0"},
		{"a Stringer", storing("user_id", uuid{'a', 'b'}), "value:user_id=ab"},
		{"a pointer that is a Stringer", storing("user_id", &account{"u9"}), "value:user_id=u9"},
		{"nothing stored", get("/"), "absent"},
		{"nil stored", storing("user_id", nil), "absent"},
		{"another key", storing("user", "u1"), "absent"},
		{"an empty string", storing("user_id", ""), "absent"},
		{"only spaces", storing("user_id", " \t\u2003"), "absent"},
		{"a nil Stringer", storing("user_id", (*account)(nil)), "absent"},
		{"a nil Stringer whose text would be <nil>", storing("user_id", (*big.Int)(nil)), "absent"},
		{"a nil slice that is a Stringer", storing("user_id", net.IP(nil)), "absent"},
		{"a float does not hold every integer", storing("user_id", 7.0), "503"},
		{"a bool is no identity", storing("user_id", true), "503"},
		{"a struct is no identity", storing("user_id", account{"u9"}), "503"},
		{"bytes are no identity", storing("user_id", []byte("u1")), "503"},
		{"a pointer of a type that is no identity, nil too", storing("user_id", (*string)(nil)), "503"},
		{"invalid UTF-8", storing("user_id", "u\xff"), "400"},
	})
}

func TestValueTellsTheApplicationAndNotTheClient(t *testing.T) {
	t.Parallel()
	f := fault(t, resolver.Value("user_id"), storing("user_id", 7.5))
	if f.Detail != "the service cannot identify clients" || f.Error() != f.Detail {
		t.Errorf("the client is told %q", f.Detail)
	}
	if f.Cause == nil || !strings.Contains(f.Cause.Error(), `"user_id" is a float64`) {
		t.Errorf("the cause is %v, want the key and the type in it", f.Cause)
	}
}

func TestValueRefusesAnEmptyKey(t *testing.T) {
	t.Parallel()
	panics(t, func() { resolver.Value("") }, "Value", "key is empty")
}
