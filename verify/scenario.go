package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A scenario is a row of the table.
type scenario struct {
	key    string // in paths and in the names of policies
	title  string // at the head of the row
	judged string // what is judged, for the reader of the table
	quota  quota
	fits   func(variant) bool
	run    runner
	slow   bool // left out by -quick
}

// A runner runs trials and returns a verdict for each. An error means that the scenario could not be played.
type runner func(ctx context.Context, l *lab, trials []trial) ([]verdict, error)

// scenarios are the rows.
func scenarios(quick bool) []scenario {
	hourly, brief := quota{100, time.Hour}, quota{50, 5 * time.Second}
	all := []scenario{
		{key: "in-turn", title: "200 in turn, 100 an hour", quota: hourly, fits: anyone, run: each(inTurn),
			judged: "The first 100 pass and no other. Where state is shared the requests go to the three processes in turn."},
		{key: "nobody", title: "60 in turn without a name, 30 an hour", quota: hourly, fits: variant.ours, run: each(nobodyInTurn),
			judged: "Who says no user id is counted by address: 30 pass."},
		{key: "one-process", title: "200 at once in one process", quota: hourly, fits: anyone, run: each(oneProcess),
			judged: "100 an hour: 100 pass. Six bursts, two to each process. A race is random: a control is caught if one burst shows it. One that shows\n" +
				"it nine times in ten escapes six bursts once in a million runs, and the four of the next row once in ten thousand."},
		{key: "three-processes", title: "300 at once over three processes", quota: hourly, fits: sharing, run: each(threeProcesses),
			judged: "100 an hour: 100 pass in all. Four bursts."},
		{key: "edge", title: "two waves across a window's edge", quota: brief, fits: anyone, run: atTheSameTime(acrossEdge),
			judged: "50 in 5 s: 75 at once shortly before a multiple of 5 s, and 75 shortly after it."},
		{key: "spent", title: "three waves, the first spends all", quota: brief, fits: anyone, run: atTheSameTime(afterSpent), slow: true,
			judged: "50 in 5 s: 75 at once, three times, 1.2 s apart."},
		{key: "clocks", title: "processes' clocks off by -2 s, 0, +2 s", quota: quota{50, 4 * time.Second}, fits: anyone, run: onSkewedClocks(skewed),
			judged: "50 in 4 s: 150 at once over the three. Where each process counts for itself, 75 to each."},
		{key: "flush", title: "300 over three during SCRIPT FLUSH", quota: hourly, fits: onRedis, run: each(duringFlush),
			judged: "100 an hour: 100 pass and nobody passes undecided while Redis is made to forget its scripts, again and again."},
		{key: "restart", title: "Redis killed and restarted", quota: hourly, fits: onRedis, run: during(restartSite),
			judged: "100 an hour, a stream to all processes: killed when half is spent, back after 0.3 s with its append-only file. Behind the plus:\n" +
				"passes that an Event of the server called degraded, as it fails open. Without them no more pass than the limit allows; fewer by\n" +
				"those whose answer died with Redis. Last: how soon after its return all processes enforced the limit; at most 5 s."},
		{key: "failover", title: "Sentinel failover", quota: hourly, fits: onRedis, run: during(sentinelSite), slow: true,
			judged: "The same: kill -9 of a master whose replica takes over. Replication is asynchronous, so what was charged in the master's last\n" +
				"0.1 s may be charged again: the most is higher by that."},
		{key: "remaining", title: "Remaining, while 100 are spent in turn", quota: hourly, fits: variant.ours, run: each(remaining),
			judged: "100 an hour: it never rises, and ends at 0."},
		{key: "headers", title: "headers against the state in Redis", quota: hourly, fits: onRedis, run: each(headers),
			judged: "100 an hour: after every tenth request and at the refusal, headers, requests counted here and what Redis holds agree. There is\n" +
				"one key for the user, and it expires."},
		{key: "retry-after", title: "back after Retry-After, or 1.5 s earlier", quota: quota{1, 3 * time.Second}, fits: variant.ours, run: atTheSameTime(comeBack),
			judged: "1 in 3 s: every user passes who returns exactly then, and none who returns 1.5 s before. An early request that the machine\n" +
				"delays by more than 0.5 s is void, as it may rightly pass; no more than half may be void. Shown: users judged, Retry-After."},
		{key: "load", title: "requests a second, p99", quota: quota{1_000_000, time.Minute}, fits: anyone, run: load,
			judged: "For information, never judged: 24 connections, nothing refused; clients, servers and Redis share the CPUs."},
	}
	return slices.DeleteFunc(all, func(s scenario) bool { return quick && s.slow })
}

// What scenarios fit.
func anyone(variant) bool { return true }

func onRedis(v variant) bool { return v.ours() && !v.alone }

// sharing fits what counts for all processes together, and the control that only seems to.
func sharing(v variant) bool { return !v.alone || !v.ours() }

// each plays one trial after the other.
func each(play func(context.Context, trial) verdict) runner {
	return func(ctx context.Context, _ *lab, trials []trial) ([]verdict, error) {
		got := make([]verdict, len(trials))
		for i, t := range trials {
			got[i] = play(ctx, t)
		}
		return got, nil
	}
}

// atTheSameTime plays all trials together: for scenarios that mostly wait.
func atTheSameTime(play func(context.Context, trial) verdict) runner {
	return func(ctx context.Context, _ *lab, trials []trial) ([]verdict, error) {
		got := make([]verdict, len(trials))
		var playing sync.WaitGroup
		for i, t := range trials {
			playing.Go(func() { got[i] = play(ctx, t) })
		}
		playing.Wait()
		return got, nil
	}
}

// onSkewedClocks plays on a fleet of its own, whose clocks are off.
func onSkewedClocks(play func(context.Context, trial) verdict) runner {
	return func(ctx context.Context, l *lab, trials []trial) ([]verdict, error) {
		f, err := l.startFleet(ctx, l.url, -2*time.Second, 0, 2*time.Second)
		if err != nil {
			return nil, err
		}
		for i := range trials {
			trials[i].fleet = f
		}
		got, err := each(play)(ctx, l, trials)
		if stopping := f.stop(); stopping != nil {
			return nil, stopping
		}
		return got, err
	}
}
