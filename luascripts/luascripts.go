// Package luascripts holds the scripts that Redis runs, one *.lua file each. The header of a script states its
// KEYS, ARGV, reply and errors; this package only embeds the text.
//
// All of them keep to what Redis 6.2 and its descendants share: one declared key, no global variables, no shebang,
// whole numbers only, and the server's clock, which every instance of a program has in common.
package luascripts

import _ "embed"

// The token bucket of package limit. Do not assign to these: they are variables only because embedding asks for it.
var (
	// TokenBucketTake charges a cost if the bucket holds it.
	//go:embed token_bucket_take.lua
	TokenBucketTake string

	// TokenBucketPeek says what TokenBucketTake would say, and writes nothing.
	//go:embed token_bucket_peek.lua
	TokenBucketPeek string

	// TokenBucketSettle corrects an earlier charge.
	//go:embed token_bucket_settle.lua
	TokenBucketSettle string
)
