package main

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/api/compute"
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
	for name, conf := range map[string]string{"told": aliases, "asked": aliases + asking} {
		t.Run(name, func(t *testing.T) { resizes(t, newFleet(t, conf+"[DEFAULT]\nallow_resize_to_same_host = false\n")) })
		t.Run(name+" on one host", func(t *testing.T) {
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
	three := fmt.Sprintf("%[1]s_0000:81:00.0 CUSTOM_PCI_8086_1533:1, %[1]s_0000:81:01.0 CUSTOM_PCI_8086_1533:1, %[1]s_0000:81:02.0 CUSTOM_PCI_8086_1528:1", source)
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
