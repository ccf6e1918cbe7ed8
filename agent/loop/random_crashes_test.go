package loop

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/internal/testenv"
)

// Servers are added and removed at random, agents crash at random, and some requests arrive after those of the next
// agent. In the end each device has at most one holder, the guests are as assigned, and compute has the final phase of
// each.
func TestRandomCrashes(t *testing.T) {
	for seed := range uint64(25 / testenv.Stride(5)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomCrashScenario(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func randomCrashScenario(t *testing.T, chance *rand.Rand) {
	w := newTestHost(t)
	w.checkReportedBuilds()
	randomCrash := func() *crash {
		return &crash{call: 1 + chance.IntN(60), after: chance.IntN(2) == 0,
			delay: time.Duration(chance.IntN(2)*chance.IntN(3000)) * time.Millisecond}
	}
	w.runAgents(func() bool { return w.provider(name2).Inventories[class].Total == 2 }, func() *crash { return &crash{} })
	free := map[string]int{name1: 2, name2: 2} // devices of each provider
	holds, now, next := map[string][]string{}, map[string]host.Server{}, 0
	for range 8 {
		for _, id := range slices.Sorted(maps.Keys(now)) {
			if chance.IntN(3) == 0 {
				for _, p := range holds[id] {
					free[p]++
				}
				delete(now, id)
			}
		}
		for range chance.IntN(4) {
			id := fmt.Sprintf("s%d", next)
			next++
			for _, p := range []string{name1, name2} {
				if free[p] > 0 && chance.IntN(2) == 0 {
					free[p]--
					holds[id] = append(holds[id], p)
				}
			}
			now[id] = w.server(id, holds[id]...)
		}
		var servers []host.Server
		for _, id := range slices.Sorted(maps.Keys(now)) {
			servers = append(servers, now[id])
		}
		w.compute.assign(servers...)
		rounds := chance.IntN(10)
		w.runAgents(func() bool { rounds--; return rounds < 0 }, randomCrash)
	}
	ids := slices.Sorted(maps.Keys(now))
	w.runAgents(func() bool {
		return w.inPhase(host.Running, ids...) && len(w.journalled().Gone()) == 0 && slices.Equal(w.running(), ids) &&
			slices.Equal(w.journalled().Servers(), ids)
	}, func() *crash { return &crash{} })
	w.checkConsistent(ids...)
	w.compute.mu.Lock()
	defer w.compute.mu.Unlock()
	for id, g := range w.compute.guests {
		if g.Phase == host.Failed || (g.Phase != host.Gone && !slices.Contains(ids, id)) {
			t.Errorf("%s ended %s: %s", id, g.Phase, g.Message)
		}
	}
}
