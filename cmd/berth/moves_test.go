package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// act does something to a server and waits until it has this status.
func (f *fleet) act(s compute.Server, status, action string, args map[string]any) compute.Server {
	t, c := f.t, f.compute.compute()
	t.Helper()
	if err := c.Act(t.Context(), s.ID, action, args); err != nil {
		t.Fatalf("%s %s: %v", action, s.Name, err)
	}
	eventually(t, s.Name+" is "+status+" after "+action, func() (bool, error) {
		now, err := c.Server(t.Context(), s.ID)
		if err != nil {
			return false, err
		}
		if now.Status == "ERROR" {
			t.Fatalf("%s: %+v", action, now.Fault)
		}
		s = now
		return now.Status == status && now.TaskState == nil, fmt.Errorf("it is %s", now.Status)
	})
	return s
}

func (f *fleet) resize(s compute.Server, alias string) compute.Server {
	f.t.Helper()
	return f.act(s, "VERIFY_RESIZE", "resize", map[string]any{"flavorRef": f.flavor(alias)})
}

// migration is the consumer that holds what a server leaves behind in its newest move.
func (f *fleet) migration(s compute.Server) compute.Server {
	f.t.Helper()
	list, err := f.compute.compute().Migrations(f.t.Context(), s.ID)
	if err != nil || len(list) == 0 {
		f.t.Fatalf("%v %v", list, err)
	}
	return compute.Server{ID: list[0].UUID, Name: "the migration of " + s.Name}
}

// holds waits until a consumer has this in Placement.
func (f *fleet) holds(s compute.Server, want string) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%s holds %q", s.Name, want), func() (bool, error) {
		got := f.held(s)
		return got == want, fmt.Errorf("it holds %q", got)
	})
}

// Resizes between two hosts and on one, whether Placement is asked for devices or only told (rows H4, H5, H6).
func TestMovesH4H5H6(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{"told": aliases, "asked": aliases + asking} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resizes(t, newFleet(t, conf+"[DEFAULT]\nallow_resize_to_same_host = false\n"))
		})
		t.Run(name+" on one host", func(t *testing.T) {
			t.Parallel()
			resizesHere(t, newFleet(t, conf+"[DEFAULT]\nallow_resize_to_same_host = true\n"))
		})
	}
}

func resizes(t *testing.T, f *fleet) {
	machine := bus81(t)
	for _, host := range []string{"cmp1", "cmp2"} {
		f.startAgent(host, f.host(host, machine, spec+reporting))
	}
	s := f.server("moving", "a-vf:2")
	source, target := "cmp1", "cmp2"
	if *s.Host == target {
		source, target = target, source
	}
	vfs := func(host string, n int) string {
		return fmt.Sprintf("%s_0000:81:03.0 CUSTOM_PCI_8086_1515:%d", host, n)
	}
	f.on(source, s)
	f.holds(s, vfs(source, 2))

	// H4: there, back, there again and confirmed.
	s = f.arrived(target, f.resize(s, "a-vf:1"))
	f.holds(s, vfs(target, 1))
	f.holds(f.migration(s), vfs(source, 2))
	s = f.on(source, f.act(s, "ACTIVE", "revertResize", nil))
	f.holds(s, vfs(source, 2))
	f.idle(target)
	s = f.arrived(target, f.resize(s, "a-vf:1"))
	m := f.migration(s)
	f.holds(m, vfs(source, 2))
	s = f.on(target, f.act(s, "ACTIVE", "confirmResize", nil))
	f.holds(s, vfs(target, 1))
	f.holds(m, "")
	f.idle(source)

	// H5: from one VF to three other devices, on the other host.
	s = f.arrived(source, f.resize(s, "a-pci-dev:2,a-pf:1"))
	three := fmt.Sprintf("%[1]s_0000:81:00.0 CUSTOM_PCI_8086_1533:1, %[1]s_0000:81:01.0 CUSTOM_PCI_8086_1533:1, "+
		"%[1]s_0000:81:02.0 CUSTOM_PCI_8086_1528:1", source)
	f.holds(s, three)
	s = f.on(source, f.act(s, "ACTIVE", "confirmResize", nil))
	f.holds(s, three)
	f.idle(target)
	f.delete(s)
	f.idle(source)
}

func resizesHere(t *testing.T, f *fleet) {
	f.startAgent("cmp1", f.host("cmp1", bus81(t), spec+reporting))
	vfs := func(n int) string { return fmt.Sprintf("cmp1_0000:81:03.0 CUSTOM_PCI_8086_1515:%d", n) }
	s := f.on("cmp1", f.server("here", "a-vf:1"))
	f.holds(s, vfs(1))

	s = f.arrived("cmp1", f.resize(s, "a-vf:2"))
	f.holds(f.migration(s), vfs(1))
	f.holds(s, vfs(2))
	s = f.on("cmp1", f.act(s, "ACTIVE", "revertResize", nil))
	f.holds(s, vfs(1))
	f.healed("cmp1", free("1/4"))

	s = f.arrived("cmp1", f.resize(s, "a-vf:2"))
	m := f.migration(s)
	s = f.on("cmp1", f.act(s, "ACTIVE", "confirmResize", nil))
	f.holds(s, vfs(2))
	f.holds(m, "")
	f.healed("cmp1", free("2/4"))
	f.delete(s)
	f.idle("cmp1")
}

// free is a host of which VFs alone are used.
func free(vfs string) map[string]string {
	return map[string]string{"81:00.0 1533": "0/1", "81:01.0 1533": "0/1", "81:02.0 1528": "0/1", "81:03.0 1515": vfs}
}

// idle waits until nobody holds a device of the host, in Placement and there.
func (f *fleet) idle(host string) {
	f.t.Helper()
	f.healed(host, free("0/4"))
	eventually(f.t, "nobody holds a device of "+host, func() (bool, error) {
		list, err := f.compute.hosts().Devices(f.t.Context())
		for _, d := range list {
			if d.Host == host && d.Holder != "" {
				return false, fmt.Errorf("%s holds %s", d.Holder, d.Address)
			}
		}
		return err == nil, err
	})
}

// arrived wants a server that was moved to be on a host, not yet confirmed.
func (f *fleet) arrived(host string, s compute.Server) compute.Server {
	f.t.Helper()
	if s.Status != "VERIFY_RESIZE" || s.Host == nil || *s.Host != host {
		f.t.Fatalf("%s is %s on %+v, want it on %s: %+v", s.Name, s.Status, s.Place, host, s.Fault)
	}
	return s
}

const migratable = `alias = {"name": "lm", "vendor_id": "8086", "product_id": "1515", "device_type": "type-VF", "live_migratable": "true"}` + "\n"

// A server's whole life between two hosts: stopped and started, rebuilt, migrated live, shelved and unshelved,
// evacuated; its old host returns.
func TestLifeOfAServer(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{"told": aliases + migratable, "asked": aliases + migratable + asking} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			life(t, newFleet(t, conf))
		})
	}
}

func life(t *testing.T, f *fleet) {
	machine, files := bus81(t), map[string]string{}
	for _, host := range []string{"cmp1", "cmp2"} {
		files[host] = f.host(host, machine, strings.Replace(spec, `"1515"`, `"1515", "live_migratable": "true"`, 1)+reporting)
		f.startAgent(host, files[host])
	}
	vfs := func(host string, n int) string {
		return fmt.Sprintf("%s_0000:81:03.0 CUSTOM_PCI_8086_1515:%d", host, n)
	}
	s := f.server("living", "lm:2")
	here, there := "cmp1", "cmp2"
	if *s.Host == there {
		here, there = there, here
	}
	s = f.on(here, s)
	f.holds(s, vfs(here, 2))
	devices := f.devices(s)
	for _, step := range []struct {
		action, status string
		args           map[string]any
	}{{"os-stop", "SHUTOFF", nil}, {"os-start", "ACTIVE", nil}, {"rebuild", "ACTIVE", map[string]any{"imageRef": ""}},
		{"reboot", "ACTIVE", map[string]any{"type": "SOFT"}}} {
		s = f.act(s, step.status, step.action, step.args)
		if got := f.devices(s); got != devices {
			t.Errorf("after %s it has %q, before %q", step.action, got, devices)
		}
	}

	s = f.on(there, f.act(s, "ACTIVE", "os-migrateLive", map[string]any{"host": nil, "block_migration": "auto"}))
	f.holds(s, vfs(there, 2))
	f.idle(here)
	here, there = there, here
	fixed := f.server("fixed", "a-pci-dev:1")
	if err := f.compute.compute().Act(t.Context(), fixed.ID, "os-migrateLive", map[string]any{"host": nil,
		"block_migration": "auto"}); err == nil {
		t.Error("a server whose devices are not live-migratable is migrated live")
	}
	f.delete(fixed)

	s = f.act(s, "SHELVED_OFFLOADED", "shelve", nil)
	f.holds(s, "")
	f.idle(here)
	s = f.act(s, "ACTIVE", "unshelve", nil)
	if here = *s.Host; here == there {
		there = map[string]string{"cmp1": "cmp2", "cmp2": "cmp1"}[here]
	}
	f.holds(s, vfs(here, 2))

	// Its host dies, and returns when the server is elsewhere.
	f.agents[here].kill()
	if err := f.compute.compute().Act(t.Context(), s.ID, "evacuate", nil); err == nil {
		t.Error("a server is evacuated from a host that may still run it")
	}
	if err := f.compute.compute().HostDown(t.Context(), here, true); err != nil {
		t.Fatal(err)
	}
	s = f.on(there, f.act(s, "ACTIVE", "evacuate", map[string]any{}))
	f.holds(s, vfs(there, 2))
	if err := f.compute.compute().HostDown(t.Context(), here, false); err != nil {
		t.Fatal(err)
	}
	delete(f.agents, here)
	f.startAgent(here, files[here])
	f.idle(here)
	guests, err := filepath.Glob(filepath.Join(f.path(here), "agent", "guests", "*.json"))
	if err != nil || len(guests) > 0 {
		t.Errorf("the host that returned still runs %v (%v)", guests, err)
	}
	f.holds(s, vfs(there, 2))
	f.delete(s)
	f.idle(there)
}

// Reporting may be switched on, against the advice, while a server is between two hosts: what it holds on both is
// healed, and the move goes on. An agent that is killed while it heals goes on where it was.
func TestUpgradeWhileMoving(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f, machine := newFleet(t, aliases), bus81(t)
	for _, host := range []string{"cmp1", "cmp2"} {
		f.startAgent(host, f.host(host, machine, spec))
	}
	s := f.server("moving", "a-vf:2")
	source, target := "cmp1", "cmp2"
	if *s.Host == target {
		source, target = target, source
	}
	s = f.arrived(target, f.resize(s, "a-pci-dev:2"))
	m := f.migration(s)
	if got := f.held(s) + f.held(m); got != "" {
		t.Fatalf("nothing is reported, and Placement has %s", got)
	}
	if p, status := f.preflight(f.path("compute.conf")); status != 1 || len(p.Cloud) != 1 || !strings.Contains(p.Cloud[0],
		"is moving (VERIFY_RESIZE)") {
		t.Errorf("status %d: %+v", status, p)
	}
	for _, host := range []string{"cmp1", "cmp2"} {
		f.startAgent(host, f.host(host, machine, spec+reporting))
		f.agents[host].kill()
		delete(f.agents, host)
		f.startAgent(host, f.path(host+".conf"))
	}
	f.holds(m, source+"_0000:81:03.0 CUSTOM_PCI_8086_1515:2")
	f.holds(s, fmt.Sprintf("%[1]s_0000:81:00.0 CUSTOM_PCI_8086_1533:1, %[1]s_0000:81:01.0 CUSTOM_PCI_8086_1533:1", target))
	s = f.on(source, f.act(s, "ACTIVE", "revertResize", nil))
	f.holds(s, source+"_0000:81:03.0 CUSTOM_PCI_8086_1515:2")
	f.idle(target)
	f.delete(s)
	f.idle(source)
}
