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
// A call takes at most its [Timeout]. After at least five failures in a row, over 200 ms or more, a server is left alone for
// a second, in which calls fail at once, and then the store tries by itself whether it answers: a dead server costs requests
// nothing, and limits are in force again within seconds of its return. In a Cluster this is so for each node. These failures are
// [store.ErrUnavailable]. A deadline that passes is the server's failure, whoever has set it; a caller who hangs up is none.
//
// To connect takes several round trips where a call takes one. After a failure the store makes connections in the background,
// with time of their own, so that a server is asked again whose round trip alone fits into the timeout.
//
// What does not pass by itself, such as a wrong password or a missing permission, is [store.ErrMisconfigured]. [Open]
// reports it if the server can be reached; later it is logged as an error for as long as it lasts. So is a server's clock
// before 1970 or after 2255.
//
// # When there are more callers than can be asked
//
// As many calls are in flight to a server as there can be connections (pool_size). Others wait for their turn, at most half
// their time, and less where answers take long. Who gets none while the server answers others has met a limit of this process
// and not of the server: nothing was sent, and the error is [store.ErrSaturated]. So a flood does not look like an outage. Where
// a process has far more to do than time, some of the calls in flight can still find no time to read their answer, and are
// [store.ErrUnavailable]; they do not count as failures of the server.
//
// # What Redis needs
//
// An eviction policy of the volatile-* kind drops the keys of limits before others, since they expire, and whoever was limited
// by an evicted key starts afresh: give limits a server of their own, or enough memory. Replication is asynchronous, so a
// failover can forget the last charges; it never adds any. A user for this store needs
//
//	+evalsha +eval +script|load +time +get +set +del ~shop:*
//
// and in a Cluster +cluster|slots +asking as well.
package redisstore
