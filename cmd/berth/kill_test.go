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

// kill -9 in the middle of 50 creates, then of 25 more, then of all deletes: afterwards every server is
// ACTIVE or ERROR, no device has two holders, and Placement's usages are what the servers hold.
func TestKilledInTheMiddle(t *testing.T) {
	testenv.Long(t)
	for _, seed := range []uint64{1, 2, 3, 4} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			killed(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func killed(t *testing.T, chance *rand.Rand) {
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
		storm(t, d, f.ID, fmt.Sprintf("s-%d", round), creates, chance.IntN(creates),
			time.Duration(chance.Int64N(int64(50*time.Millisecond))))
		d.kill()
		d = up(t, path, dir)
	}
	settled(t, d)
	whole(t, d, dir, pfs*vfs)

	list, err := d.compute().Servers(t.Context(), compute.ListServers{AllProjects: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if err := d.compute().DeleteServer(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Duration(chance.Int64N(int64(100 * time.Millisecond))))
	d.kill()
	d = up(t, path, dir)
	eventually(t, "all servers are gone", func() (bool, error) {
		list, err := d.compute().Servers(t.Context(), compute.ListServers{AllProjects: true})
		return err == nil && len(list) == 0, err
	})
	whole(t, d, dir, pfs*vfs)
	d.stop(t)
}

// storm asks for servers from as many clients at once. It returns a while after so many of them were acknowledged, with
// the others on their way.
func storm(t *testing.T, d *daemon, flavorID, name string, creates, acknowledged int, while time.Duration) {
	t.Helper()
	acks, client := make(chan struct{}, creates), d.compute()
	var clients sync.WaitGroup
	for i := range creates {
		clients.Go(func() {
			// A create that the kill cut off has failed for its client; whether the server exists is what is tested.
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
		case <-time.After(time.Minute):
			t.Fatalf("fewer than %d creates were acknowledged\n%s", acknowledged, d.log)
		}
	}
	time.Sleep(while)
}

// settled waits until no server is on its way.
func settled(t *testing.T, d *daemon) {
	t.Helper()
	eventually(t, "every server is ACTIVE or ERROR", func() (bool, error) {
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

// whole holds the four pictures of the world against each other: servers, devices, Placement, guests.
func whole(t *testing.T, d *daemon, dir string, devices int) {
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
			t.Errorf("%s is in ERROR and does not say why: %+v", s.Name, s.Fault)
		}
	}
	t.Logf("%d servers, %d of them ACTIVE", len(list), len(active))
	if want := min(len(list), devices); len(active) != want {
		t.Errorf("%d servers are ACTIVE, with %d servers and %d devices it ought to be %d", len(active), len(list), devices,
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
			t.Errorf("a guest without a server: %s", id)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "agent", "journal")); err != nil {
		t.Errorf("there is no journal: %v", err)
	}
}

// checkDevices: each ACTIVE server holds exactly one device, nobody else holds any.
func checkDevices(t *testing.T, d *daemon, active map[string]bool) {
	t.Helper()
	eventually(t, "the host reports one device per ACTIVE server and no other holder", func() (bool, error) {
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
				return false, fmt.Errorf("%s holds %d devices, active: %v", id, n, active[id])
			}
		}
		return len(held) == len(active), fmt.Errorf("%d holders for %d servers", len(held), len(active))
	})
}

// checkPlacement: the allocations are those of the ACTIVE servers, and the usages their sum.
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
			t.Errorf("server %s holds %d devices in Placement", id, n)
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
				t.Errorf("%s: Placement counts %s %d, the servers hold %d", one.Name, class, n, sum[one.ID][class])
			}
		}
	}
	if _, err := p.ProviderByName(t.Context(), "cmp1_0000:10:00.1"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a VF has a provider of its own: %v", err)
	}
}
