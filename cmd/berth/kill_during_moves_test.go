package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

const migratable = `alias = {"name": "lm", "vendor_id": "8086", "product_id": "1515", "device_type": "type-VF", ` +
	`"live_migratable": "true"}` + "\n"

// After repeated kill -9 of compute or of an agent during resizes, confirmations, reverts and live migrations, every
// server is ACTIVE, Placement has exactly the devices that the hosts report, and moves leave nothing behind.
func TestKillDuringMoves(t *testing.T) {
	t.Parallel()
	for seed, conf := range []string{"", pciInPlacement, pciInPlacement} { // without and with pci_in_placement
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			moveWhileKilling(t, aliases+migratable+conf+"[DEFAULT]\nallow_resize_to_same_host = true\n",
				rand.New(rand.NewPCG(uint64(seed), 4)))
		})
	}
}

func moveWhileKilling(t *testing.T, conf string, random *rand.Rand) {
	f, machine := newFleet(t, conf), bus81(t)
	for _, host := range []string{"cmp1", "cmp2"} {
		f.startAgent(host, f.host(host, machine, strings.Replace(deviceSpecs, `"1515"`, `"1515", "live_migratable": "true"`,
			1)+reportInPlacement))
	}
	var servers []compute.Server
	for n := range 3 {
		s := f.server(fmt.Sprintf("s%d", n), "lm:1")
		if s.Status != "ACTIVE" {
			t.Fatalf("%+v", s.Fault)
		}
		servers = append(servers, s)
	}
	flavors := []string{f.flavor("lm:1"), f.flavor("a-vf:1"), f.flavor("lm:2")}
	for range 6 {
		for _, s := range f.waitUntilSettled() {
			action, args := "resize", map[string]any{"flavorRef": flavors[random.IntN(len(flavors))]}
			switch {
			case s.Status == "VERIFY_RESIZE":
				action, args = []string{"confirmResize", "revertResize"}[random.IntN(2)], nil
			case s.Status == "ACTIVE" && random.IntN(3) == 0:
				action, args = "os-migrateLive", map[string]any{"host": nil, "block_migration": "auto"}
			}
			// Some actions are refused, such as a resize to the same flavor. Only the final state is checked.
			if err := f.compute.compute().Act(t.Context(), s.ID, action, args); err != nil {
				t.Logf("%s %s: %v", action, s.Name, err)
			}
		}
		time.Sleep(time.Duration(random.Int64N(int64(60 * time.Millisecond))))
		f.killAndRestart([]string{"compute", "cmp1", "cmp2"}[random.IntN(3)])
	}
	for _, s := range f.waitUntilSettled() {
		if s.Status == "VERIFY_RESIZE" {
			s = f.act(s, "ACTIVE", "confirmResize", nil)
		}
		if s.Status != "ACTIVE" {
			t.Errorf("%s is %s: %+v", s.Name, s.Status, s.Fault)
		}
		f.waitUntilConsistent(s)
	}
	f.delete(servers...)
	f.waitUntilIdle("cmp1")
	f.waitUntilIdle("cmp2")
}

// killAndRestart sends SIGKILL to compute or to the agent of a host and starts it again.
func (f *fleet) killAndRestart(name string) {
	f.t.Helper()
	if name != "compute" {
		f.agents[name].kill()
		delete(f.agents, name)
		f.startAgent(name, f.path(name+".conf"))
		return
	}
	f.compute.kill()
	placement, listen := f.placement.urls["placement"], strings.TrimPrefix(f.compute.urls["compute"], "http://")
	f.compute = start(f.t, []string{"compute"}, "compute", "--config-file", f.path("compute.conf"), "--data-dir",
		f.path("compute"), "--listen", listen, "--placement-url", placement)
	f.compute.urls["placement"] = placement
}

// waitUntilSettled waits until no server has a task state, and returns all servers.
func (f *fleet) waitUntilSettled() (list []compute.Server) {
	f.t.Helper()
	testenv.Until(f.t, "no server has a task state", func() (bool, error) {
		var err error
		list, err = f.compute.compute().Servers(f.t.Context(), compute.ListServers{AllProjects: true})
		i := slices.IndexFunc(list, func(s compute.Server) bool { return s.TaskState != nil })
		if err == nil && i >= 0 {
			err = fmt.Errorf("%s is %s/%s", list[i].Name, list[i].Status, *list[i].TaskState)
		}
		return err == nil, err
	})
	return list
}

// waitUntilConsistent waits until Placement has the devices of a server that its host reports.
func (f *fleet) waitUntilConsistent(s compute.Server) {
	f.t.Helper()
	testenv.Until(f.t, "Placement and the host agree on "+s.Name, func() (bool, error) {
		held, n := f.allocation(s), len(strings.Fields(f.devices(s)))
		want := fmt.Sprintf("%s_0000:81:03.0 CUSTOM_PCI_8086_1515:%d", *s.Host, n)
		return n > 0 && held == want, fmt.Errorf("the host has %s, Placement %s", f.devices(s), held)
	})
}
