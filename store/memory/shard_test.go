package memory

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/trafficguard-go/trafficguard/limit"
)

// TestShardKeepsWhatIsLive drives a shard beside a map. The hashes are few and next to each other, so that runs of
// slots are long, cross the end of the table, and are torn apart by whatever is removed.
func TestShardKeepsWhatIsLive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := New(MaxKeys(rapid.IntRange(1, 60).Draw(t, "max")))
		sh := &s.shards[0]
		model := make(map[uint64]limit.State)
		now := int64(1000)
		live := func(st limit.State) bool { return st.At > now || st.At == now && st.Frac > 0 }
		hashes := rapid.Custom(func(t *rapid.T) uint64 {
			home := rapid.Uint64Range(1, 12).Draw(t, "home")
			return home*5 ^ rapid.SampledFrom([]uint64{0, 0, 1 << 10, 1 << 20}).Draw(t, "high")
		})
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			h := hashes.Draw(t, "hash")
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				now += rapid.Int64Range(0, 40).Draw(t, "elapsed")
			case 1:
				s.kept.Add(-int64(sh.tidy(now, 0)))
				if n := int64(sh.used); n != s.kept.Load() {
					t.Fatalf("tidied: %d slots are used, %d counted", n, s.kept.Load())
				}
				for _, e := range sh.table {
					if e.hash != 0 && e.full(now) {
						t.Fatalf("tidied: %+v is still there", e)
					}
				}
			case 2:
				if e := sh.find(h); e != nil {
					e.set(limit.State{})
				}
				delete(model, h)
			default:
				st := limit.State{
					At:   now + rapid.Int64Range(0, 100).Draw(t, "owed"),
					Frac: rapid.SampledFrom([]int64{0, 0, 1, 1<<31 - 2}).Draw(t, "fraction"),
					Over: rapid.Bool().Draw(t, "over"),
				}
				if e := sh.find(h); e != nil {
					e.set(st)
					model[h] = st
					break
				}
				fits := s.room(sh, h, now)
				if got := s.insert(sh, h, st, now); got != fits {
					t.Fatalf("room said %v, insert %v", fits, got)
				}
				if fits {
					model[h] = st
				}
			}
			for h, st := range model {
				if !live(st) {
					delete(model, h) // it may be gone, or not
					continue
				}
				if got := sh.find(h).state(); got != st {
					t.Fatalf("%#x: %+v, want %+v", h, got, st)
				}
			}
			if int64(len(model)) > s.max || s.kept.Load() > s.max || int64(sh.used) != s.kept.Load() {
				t.Fatalf("%d live, %d used, %d counted, of at most %d", len(model), sh.used, s.kept.Load(), s.max)
			}
		}
	})
}

// TestFullStoreIsFullOfLiveSubjects checks that nobody is turned away while a subject is kept that need not be.
func TestFullStoreIsFullOfLiveSubjects(t *testing.T) {
	t.Parallel()
	s := New(MaxKeys(20))
	sh := &s.shards[0]
	for h := range uint64(20) {
		if !s.insert(sh, h+1, limit.State{At: 100 + int64(h)}, 0) {
			t.Fatalf("subject %d of 20: no room", h+1)
		}
	}
	if s.insert(sh, 21, limit.State{At: 500}, 99) {
		t.Fatal("room for a 21st of 20, all of them live")
	}
	if !s.insert(sh, 1000, limit.State{At: 500}, 200) {
		t.Fatal("no room, though all are full again")
	}
	if got := sh.find(1000).state(); got != (limit.State{At: 500}) {
		t.Fatalf("the state is %+v", got)
	}
}

func TestSlotPacksAState(t *testing.T) {
	t.Parallel()
	for _, st := range []limit.State{{}, {At: -1}, {At: 1 << 62, Frac: 1<<31 - 2, Over: true}, {At: 5, Frac: 1}, {Over: true}} {
		var e slot
		e.set(st)
		if got := e.state(); got != st {
			t.Errorf("%+v came back as %+v", st, got)
		}
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ keys, shards int }{
		{1, 1}, {1023, 1}, {1024, 2}, {10_000, 16}, {1 << 22, 256}, {1<<22 + 1, 512}, {1 << 40, 4096},
	} {
		if got := shardsFor(tc.keys); got != tc.shards {
			t.Errorf("%d keys: %d shards, want %d", tc.keys, got, tc.shards)
		}
	}
}
