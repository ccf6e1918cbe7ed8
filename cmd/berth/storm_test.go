package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
)

// kill -9 of compute or of an agent, again and again, while servers are resized, confirmed, reverted and migrated live:
// afterwards every server is whole, Placement has exactly what the hosts say that it holds, and nothing is left of what
// moved.
func TestMovesSurviveKills(t *testing.T) {
	t.Parallel()
	for seed, conf := range []string{"", asking, asking} { // Placement is told what is held, or asked for it
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			moveStorm(t, aliases+migratable+conf+"[DEFAULT]\nallow_resize_to_same_host = true\n",
				rand.New(rand.NewPCG(uint64(seed), 4)))
		})
	}
}

func moveStorm(t *testing.T, conf string, chance *rand.Rand) {
	f, machine := newFleet(t, conf), bus81(t)
	for _, host := range []string{"cmp1", "cmp2"} {
		f.startAgent(host, f.host(host, machine, strings.Replace(spec, `"1515"`, `"1515", "live_migratable": "true"`,
			1)+reporting))
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
		for _, s := range f.settled() {
			action, args := "resize", map[string]any{"flavorRef": flavors[chance.IntN(len(flavors))]}
			switch {
			case s.Status == "VERIFY_RESIZE":
				action, args = []string{"confirmResize", "revertResize"}[chance.IntN(2)], nil
			case s.Status == "ACTIVE" && chance.IntN(3) == 0:
				action, args = "os-migrateLive", map[string]any{"host": nil, "block_migration": "auto"}
			}
			// Refused where it makes no sense, such as the flavor that it has; what counts is what is left afterwards.
			if err := f.compute.compute().Act(t.Context(), s.ID, action, args); err != nil {
				t.Logf("%s %s: %v", action, s.Name, err)
			}
		}
		time.Sleep(time.Duration(chance.Int64N(int64(60 * time.Millisecond))))
		f.crash([]string{"compute", "cmp1", "cmp2"}[chance.IntN(3)])
	}
	for _, s := range f.settled() {
		if s.Status == "VERIFY_RESIZE" {
			s = f.act(s, "ACTIVE", "confirmResize", nil)
		}
		if s.Status != "ACTIVE" {
			t.Errorf("%s is %s: %+v", s.Name, s.Status, s.Fault)
		}
		f.agrees(s)
	}
	f.delete(servers...)
	f.idle("cmp1")
	f.idle("cmp2")
}

// crash is kill -9 and a start anew.
func (f *fleet) crash(name string) {
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

// settled waits until nothing is being done to any server.
func (f *fleet) settled() (list []compute.Server) {
	f.t.Helper()
	eventually(f.t, "nothing is on its way", func() (bool, error) {
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

// agrees wants Placement to have for a server what its host says that it holds.
func (f *fleet) agrees(s compute.Server) {
	f.t.Helper()
	eventually(f.t, "Placement and the host agree on "+s.Name, func() (bool, error) {
		held, n := f.held(s), len(strings.Fields(f.devices(s)))
		want := fmt.Sprintf("%s_0000:81:03.0 CUSTOM_PCI_8086_1515:%d", *s.Host, n)
		return n > 0 && held == want, fmt.Errorf("the host has %s, Placement %s", f.devices(s), held)
	})
}
