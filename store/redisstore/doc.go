// Package redisstore keeps the state of limits in Redis, so that all instances of a program share it: a single server,
// one behind Sentinel, or a Redis Cluster. It needs Redis 6.2 or what speaks like it.
//
//	redis, err := redisstore.Open("redis://localhost:6379/0", "shop")
//
// # One step, one round trip
//
// Every decision is one Lua script on one key, and takes the time from the server: the clocks of instances do not
// matter. A key lives exactly as long as there is something to remember. If the server forgets the scripts, at a restart,
// a failover or SCRIPT FLUSH, they are sent again at once and nobody notices.
//
// # Nothing is sent twice
//
// A script whose answer was lost may have run, so it is never repeated: the caller gets [store.ErrUnavailable], and the
// charge was made once or not at all. Only where the server says that it did not run the script is it sent once more:
// an unknown script, or a redirection within a Cluster. go-redis itself repeats commands unless it is told not
// to. [Open] tells it; [New] refuses a client that was not told.
//
// # When Redis is slow, gone, or set up wrongly
//
// A call takes at most its [Timeout]. After five failures in a row a server is left alone for a second, in which calls fail
// at once, and then one call tries again: a dead server costs requests nothing, and limits are in force again within
// seconds of its return. In a Cluster this is so for each node. These failures are [store.ErrUnavailable].
//
// What does not pass by itself, such as a wrong password or a missing permission, is [store.ErrMisconfigured]. [Open]
// reports it if the server can be reached; later it is logged as an error for as long as it lasts.
//
// # What Redis needs
//
// A policy of eviction drops the keys of limits before others, since they expire, and whoever was limited by an evicted key
// starts afresh: give limits a server of their own, or enough memory. Replication is asynchronous, so a failover can forget
// the last charges; it never adds any. A user for this store needs
//
//	+evalsha +eval +script|load +time +get +set +del ~shop:*
//
// and in a Cluster +cluster|slots +asking as well.
package redisstore
