package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// After kill -9 during 50 creates, then 25 more, then all deletes, every server is ACTIVE or ERROR, each device has at
// most one server, and Placement's usages equal the devices of the servers.
func TestKillDuringCreatesAndDeletes(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3, 4} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			killDuringRequests(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func killDuringRequests(t *testing.T, random *rand.Rand) {
	const pfs, vfs = 5, 8
	path, dir := conf(t, machine(t, pfs, vfs)), t.TempDir()
	d := up(t, path, dir)
	f, err := d.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.compute().SetExtraSpecs(t.Context(), f.ID, map[string]string{"pci_passthrough:alias": "vf:1"}); err !=
		nil {
		t.Fatal(err)
	}
	for round, creates := range []int{50, 25} {
		createConcurrently(t, d, f.ID, fmt.Sprintf("s-%d", round), creates, random.IntN(creates),
			time.Duration(random.Int64N(int64(50*time.Millisecond))))
		d.kill()
		d = up(t, path, dir)
	}
	waitUntilSettled(t, d)
	checkConsistency(t, d, dir, pfs*vfs)

	list, err := d.compute().Servers(t.Context(), compute.ListServers{AllProjects: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if err := d.compute().DeleteServer(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
	d.kill()
	d = up(t, path, dir)
	testenv.Until(t, "all servers are gone", func() (bool, error) {
		list, err := d.compute().Servers(t.Context(), compute.ListServers{AllProjects: true})
		return err == nil && len(list) == 0, err
	})
	checkConsistency(t, d, dir, pfs*vfs)
	d.stop(t)
}

// createConcurrently creates servers, each with its own client, at the same time. It returns pause after this number
// was acknowledged, while the others are still running.
func createConcurrently(t *testing.T, d *daemon, flavorID, name string, creates, acknowledged int,
	pause time.Duration) {
	t.Helper()
	acks, client := make(chan struct{}, creates), d.compute()
	var clients sync.WaitGroup
	for i := range creates {
		clients.Go(func() {
			// A create fails for its client if the process is killed; checkConsistency accepts both outcomes.
			if _, err := client.CreateServer(t.Context(), compute.CreateServer{Name: fmt.Sprintf("%s-%d", name, i),
				Flavor: flavorID}); err == nil {
				acks <- struct{}{}
			}
		})
	}
	t.Cleanup(clients.Wait)
	for range acknowledged {
		select {
		case <-acks:
		case <-time.After(testenv.Patience):
			t.Fatalf("fewer than %d creates were acknowledged\n%s", acknowledged, d.log)
		}
	}
	time.Sleep(pause)
}

// waitUntilSettled waits until every server is ACTIVE or ERROR.
func waitUntilSettled(t *testing.T, d *daemon) {
	t.Helper()
	testenv.Until(t, "every server is ACTIVE or ERROR", func() (bool, error) {
		list, err := d.compute().Servers(t.Context(), compute.ListServers{AllProjects: true})
		if err != nil {
			return false, err
		}
		for _, s := range list {
			if s.Status != "ACTIVE" && s.Status != "ERROR" {
				return false, fmt.Errorf("%s is %s", s.Name, s.Status)
			}
		}
		return true, nil
	})
}

// checkConsistency compares servers, devices, Placement and guests.
func checkConsistency(t *testing.T, d *daemon, dir string, devices int) {
	t.Helper()
	list, err := d.compute().Servers(t.Context(), compute.ListServers{AllProjects: true})
	if err != nil {
		t.Fatal(err)
	}
	active := map[string]bool{}
	for _, s := range list {
		switch {
		case s.Status == "ACTIVE":
			active[s.ID] = true
		case s.Fault == nil || !strings.Contains(s.Fault.Message, "CUSTOM_VF"):
			t.Errorf("%s is in ERROR for another reason: %+v", s.Name, s.Fault)
		}
	}
	t.Logf("%d servers, %d of them ACTIVE", len(list), len(active))
	if want := min(len(list), devices); len(active) != want {
		t.Errorf("%d servers are ACTIVE; want %[4]d of %[2]d servers with %[3]d devices", len(active), len(list), devices,
			want)
	}
	checkDevices(t, d, active)
	checkPlacement(t, d, active)
	guests, err := filepath.Glob(filepath.Join(dir, "agent", "guests", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(guests) != len(active) {
		t.Errorf("%d guests for %d servers: %v", len(guests), len(active), guests)
	}
	for _, g := range guests {
		if id := strings.TrimSuffix(filepath.Base(g), ".json"); !active[id] {
			t.Errorf("guest without an ACTIVE server: %s", id)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "agent", "journal")); err != nil {
		t.Errorf("no journal: %v", err)
	}
}

// checkDevices waits until each ACTIVE server has exactly one device, and no other consumer has one.
func checkDevices(t *testing.T, d *daemon, active map[string]bool) {
	t.Helper()
	testenv.Until(t, "the host reports one device per ACTIVE server and no other holder", func() (bool, error) {
		list, err := d.hosts().Devices(t.Context())
		if err != nil {
			return false, err
		}
		held := map[string]int{}
		for _, dev := range list {
			if dev.Holder != "" {
				held[dev.Holder]++
			}
		}
		for id, n := range held {
			if !active[id] || n != 1 {
				return false, fmt.Errorf("%s has %d devices, active: %v", id, n, active[id])
			}
		}
		return len(held) == len(active), fmt.Errorf("%d holders for %d servers", len(held), len(active))
	})
}

// checkPlacement checks that each ACTIVE server has one device in Placement, and that the usages are the sums of the
// allocations.
func checkPlacement(t *testing.T, d *daemon, active map[string]bool) {
	t.Helper()
	p := d.placement()
	sum := map[provider.ID]resource.Amounts{}
	for id := range active {
		held, err := p.Allocation(t.Context(), resource.ConsumerID(id))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for where, amounts := range held.Allocation {
			n += amounts["CUSTOM_VF"]
			if sum[where] == nil {
				sum[where] = resource.Amounts{}
			}
			for class, amount := range amounts {
				sum[where][class] += amount
			}
		}
		if n != 1 {
			t.Errorf("server %s has %d devices in Placement, want 1", id, n)
		}
	}
	root, err := p.ProviderByName(t.Context(), "cmp1")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := p.Tree(t.Context(), root.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tree.Providers {
		used, err := p.Usages(t.Context(), one.ID)
		if err != nil {
			t.Fatal(err)
		}
		for class, n := range used {
			if sum[one.ID][class] != n {
				t.Errorf("%s: usage of %s is %d, the servers have %d", one.Name, class, n, sum[one.ID][class])
			}
		}
	}
	if _, err := p.ProviderByName(t.Context(), "cmp1_0000:10:00.1"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a VF has its own provider: %v", err)
	}
}
