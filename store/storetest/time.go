package storetest

import (
	"fmt"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
)

func timeCases() []contract {
	return []contract{
		{"low rates", "A limit of one a month is counted like any other.", lowRates},
		{"uneven periods", "A period need be no whole number of seconds or milliseconds.", unevenPeriods},
		{"steady client", "Who asks exactly at the limit's rate is never refused, for however long.", steadyClient},
		{"later years", "Nothing is special about later years.", laterYears},
		{"forgotten", "A subject that comes back after its bucket is full has its burst, and not more.", forgotten},
		{"rule change", "Under another limit a subject keeps the instant at which it will owe nothing.", ruleChange},
		{"smaller rule", "Under a smaller limit a subject owes at most that limit's burst, and the wait that it is told is enough.", smallerRule},
	}
}

func lowRates(x *trial) {
	for _, period := range []time.Duration{24 * time.Hour, 720 * time.Hour, 366 * 24 * time.Hour} {
		s := x.subject("every "+period.String(), limit.Every(period))
		s.admit(1)
		s.refuse(1, period)
		x.clock.Advance(period - time.Second)
		s.refuse(1, time.Second)
		x.clock.Advance(time.Second - time.Microsecond)
		s.refuse(1, time.Microsecond)
		x.clock.Advance(time.Microsecond)
		s.admit(1)
		x.clock.Advance(period + time.Second)
		s.admit(1)
	}
}

func unevenPeriods(x *trial) {
	for _, tc := range []struct {
		limit limit.Limit
		waits []time.Duration // of the requests that come as soon as they may, from an empty bucket on
	}{
		{limit.Per(3, 1500*time.Millisecond), []time.Duration{500_000, 500_000, 500_000}},
		{limit.PerMinute(7), []time.Duration{8_571_429, 8_571_429, 8_571_428, 8_571_429, 8_571_428, 8_571_429, 8_571_428}},
		{limit.Every(333_333 * time.Microsecond), []time.Duration{333_333, 333_333, 333_333}},
		{limit.Per(3, 10*time.Second), []time.Duration{3_333_334, 3_333_333, 3_333_333}},
	} {
		s := x.subject(tc.limit.String(), tc.limit)
		s.drain()
		for _, wait := range tc.waits {
			wait *= time.Microsecond
			s.refuse(1, wait)
			x.clock.Advance(wait)
			s.admit(1)
		}
		x.clock.Advance(s.rule.Window())
		s.left(s.rule.Burst())
	}
}

func steadyClient(x *trial) {
	steady(x, "a millisecond apart", limit.PerSecond(1000).Burst(1), time.Millisecond, 2000)
	steady(x, "20ms apart", limit.PerSecond(100).Burst(1), 20*time.Millisecond, 500)
	steady(x, "333.333ms apart", limit.Every(333_333*time.Microsecond), 333_333*time.Microsecond, 500)
}

func steady(x *trial, name string, l limit.Limit, pause time.Duration, n int) {
	s := x.subject(name, l)
	for i := range n {
		if g := s.take(1); !g.OK {
			x.Fatalf("%s, %s: request %d refused: %+v", l, name, i+1, g.Verdict)
		}
		x.clock.Advance(pause)
	}
}

func laterYears(x *trial) {
	for _, year := range []int{2038, 2100, 2200} {
		x.clock.Set(time.Date(year, time.December, 31, 23, 59, 59, 999_999_000, time.UTC))
		steady(x, fmt.Sprint("year ", year), limit.PerSecond(1000).Burst(1), time.Millisecond, 200)
		s := x.subject(fmt.Sprint("sevens of ", year), limit.PerMinute(7))
		s.drain()
		s.refuse(1, 8_571_429*time.Microsecond)
		x.clock.Advance(8_571_428 * time.Microsecond)
		s.refuse(1, time.Microsecond)
		x.clock.Advance(time.Microsecond)
		s.admit(1)
	}
}

func forgotten(x *trial) {
	for _, l := range uneven() {
		s := x.subject("back "+l.String(), l)
		g := s.admit(s.rule.Burst())
		x.clock.Advance(g.Full - time.Microsecond)
		if v := s.peek(s.rule.Burst()); v.OK || v.Wait != time.Microsecond {
			x.Fatalf("%s: 1µs before the bucket is full: %+v, want the whole burst refused with a wait of 1µs", l, v)
		}
		x.clock.Advance(time.Microsecond)
		s.left(s.rule.Burst())
		x.clock.Advance(1000 * s.rule.Window())
		s.left(s.rule.Burst())
	}
}

func ruleChange(x *trial) {
	s := x.subject("upgrade", limit.PerMinute(10))
	s.drain() // full again in a minute
	s = s.under(limit.PerHour(600))
	if v := s.peek(1); !v.OK || v.Remaining != 589 || v.Full != 66*time.Second {
		x.Fatalf("from 10 a minute, all spent, to 600 an hour: %+v, want 589 remaining and full in 1m6s after one more", v)
	}
	s.admit(590)
	s.refuse(1, 6*time.Second)

	s = x.subject("other fractions", limit.PerMinute(7))
	s.admit(1) // owes 60/7 s
	s = s.under(limit.PerMinute(7).Burst(20))
	s.left(19)
	s = s.under(limit.PerSecond(1).Burst(60))
	if v := s.peek(51); !v.OK || v.Remaining != 0 {
		x.Fatalf("8.571s owed of 60s: %+v, want 51 admitted and 0 remaining", v)
	}
	if v := s.peek(52); v.OK || v.Wait < 571_428*time.Microsecond || v.Wait > 571_429*time.Microsecond {
		x.Fatalf("8.571s owed of 60s: %+v, want 52 refused with a wait of 571.428ms, or 1µs more", v)
	}
}

func smallerRule(x *trial) {
	s := x.subject("downgrade", limit.PerHour(1000))
	s.drain() // full again in an hour
	s = s.under(limit.PerMinute(10))
	s.refuse(1, 6*time.Second)
	x.clock.Advance(6*time.Second - time.Microsecond)
	s.refuse(1, time.Microsecond)
	x.clock.Advance(time.Microsecond)
	s.admit(1)
	s.refuse(1, 6*time.Second)
	x.clock.Advance(time.Minute)
	s.left(10)
}

func backwardCases() []contract {
	return []contract{
		{"clock goes back", "A clock that goes back locks nobody out for longer than a burst takes to refill, and the wait that a subject is told is enough.", clockGoesBack},
		{"clock goes back a little", "A clock that goes back by less than the refill costs at most the time that it went back.", clockGoesBackALittle},
	}
}

func clockGoesBack(x *trial) {
	for _, back := range []time.Duration{61 * time.Second, time.Hour, 10 * 365 * 24 * time.Hour} {
		s := x.subject("back "+back.String(), limit.PerMinute(6))
		s.drain()
		x.clock.Advance(-back)
		s.refuse(1, 10*time.Second)
		x.clock.Advance(4 * time.Second)
		s.refuse(1, 6*time.Second)
		x.clock.Advance(6 * time.Second)
		s.admit(1)
		s.refuse(1, 10*time.Second)
		x.clock.Advance(time.Minute)
		s.left(6)
	}
}

func clockGoesBackALittle(x *trial) {
	s := x.subject("a little", limit.PerMinute(6))
	s.admit(2)
	x.clock.Advance(-15 * time.Second) // owes 35s
	s.left(2)
	x.clock.Advance(15 * time.Second)
	s.left(4)

	s = x.subject("receipt", limit.PerMinute(6))
	g := s.admit(2)
	x.clock.Advance(-15 * time.Second)
	s.settle(g, 0)
	s.left(4) // gives back its 20s, the 15s remain
	x.clock.Advance(15 * time.Second)
	s.left(6)
}
