// Package bench compares TrafficGuard with other rate limiters. It is a module of its own so that their dependencies
// never reach a user's build. Compare the rows of one run with each other, never with another machine's.
//
//	go test -bench . -benchmem -count 6 | tee new.txt && go tool benchstat -col /limiter new.txt
package bench
