package resolver

import (
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// Integer counts by what r finds if that is an integer in its only canonical spelling: decimal digits without leading
// zeros, with a minus sign before them where it is negative, of any length. Everything else is answered with 400: "01",
// "+1", " 1", "-0", "1.0", "0x1". Use it where the handler parses an integer: most parsers take several spellings for
// one number, and without it each of them has a quota of its own.
//
// It does not bound the number. A handler that reads numbers as float64, as encoding/json does where it is given an
// any, takes different integers above 2^53 for one, and each of them has its own quota: let it read into int64, or
// with json.Decoder.UseNumber.
//
// It goes inside [Join] and [Hashed], whose values are no integers.
func Integer(r Func) Func {
	mustBuild("Integer", checkFuncs(r))
	return func(x guard.Exchange) (Subject, error) {
		s, ok, err := present(r, x)
		if !ok || s.Value == "" { // Everyone has no number
			return s, err
		}
		if !isInteger(s.Value) {
			return Subject{}, invalid("the client's identity is not an integer: write it in digits, " +
				"without leading zeros, plus sign or spaces")
		}
		return s, nil
	}
}

func isInteger(s string) bool {
	digits, negative := strings.CutPrefix(s, "-")
	if digits == "0" {
		return !negative
	}
	return digits != "" && digits[0] != '0' && strings.Trim(digits, "0123456789") == ""
}
