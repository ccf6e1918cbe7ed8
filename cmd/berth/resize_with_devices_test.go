package main

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/api/compute"
)

// act runs an action on a server and waits until the server has this status.
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
		return now.Status == status && now.TaskState == nil, fmt.Errorf("the status is %s", now.Status)
	})
	return s
}

func (f *fleet) resize(s compute.Server, alias string) compute.Server {
	f.t.Helper()
	return f.act(s, "VERIFY_RESIZE", "resize", map[string]any{"flavorRef": f.flavor(alias)})
}

// migrationOf returns the newest migration of a server: the consumer of its allocations on the source host.
func (f *fleet) migrationOf(s compute.Server) compute.Server {
	f.t.Helper()
	list, err := f.compute.compute().Migrations(f.t.Context(), s.ID)
	if err != nil || len(list) == 0 {
		f.t.Fatalf("%v %v", list, err)
	}
	return compute.Server{ID: list[0].UUID, Name: "the migration of " + s.Name}
}

// waitForAllocation waits until a consumer has these devices in Placement; see allocation.
func (f *fleet) waitForAllocation(s compute.Server, want string) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%s has the allocation %q", s.Name, want), func() (bool, error) {
		got := f.allocation(s)
		return got == want, fmt.Errorf("it has %q", got)
	})
}

// Resizes between two hosts and on one host, with and without pci_in_placement.
func TestResizeWithDevices(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{"without pci_in_placement": aliases,
		"with pci_in_placement": aliases + pciInPlacement} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testResizes(t, newFleet(t, conf+"[DEFAULT]\nallow_resize_to_same_host = false\n"))
		})
		t.Run(name+" on one host", func(t *testing.T) {
			t.Parallel()
			testResizesOnOneHost(t, newFleet(t, conf+"[DEFAULT]\nallow_resize_to_same_host = true\n"))
		})
	}
}

func testResizes(t *testing.T, f *fleet) {
	machine := bus81(t)
	for _, host := range []string{"cmp1", "cmp2"} {
		f.startAgent(host, f.host(host, machine, deviceSpecs+reportInPlacement))
	}
	s := f.server("moving", "a-vf:2")
	source, target := "cmp1", "cmp2"
	if *s.Host == target {
		source, target = target, source
	}
	vfs := func(host string, n int) string {
		return fmt.Sprintf("%s_0000:81:03.0 CUSTOM_PCI_8086_1515:%d", host, n)
	}
	f.wantActiveOn(source, s)
	f.waitForAllocation(s, vfs(source, 2))

	// Resized and reverted, then resized and confirmed.
	s = f.wantResized(target, f.resize(s, "a-vf:1"))
	f.waitForAllocation(s, vfs(target, 1))
	f.waitForAllocation(f.migrationOf(s), vfs(source, 2))
	s = f.wantActiveOn(source, f.act(s, "ACTIVE", "revertResize", nil))
	f.waitForAllocation(s, vfs(source, 2))
	f.waitUntilIdle(target)
	s = f.wantResized(target, f.resize(s, "a-vf:1"))
	m := f.migrationOf(s)
	f.waitForAllocation(m, vfs(source, 2))
	s = f.wantActiveOn(target, f.act(s, "ACTIVE", "confirmResize", nil))
	f.waitForAllocation(s, vfs(target, 1))
	f.waitForAllocation(m, "")
	f.waitUntilIdle(source)

	// Resized from one VF to three other devices on the other host.
	s = f.wantResized(source, f.resize(s, "a-pci-dev:2,a-pf:1"))
	three := fmt.Sprintf("%[1]s_0000:81:00.0 CUSTOM_PCI_8086_1533:1, %[1]s_0000:81:01.0 CUSTOM_PCI_8086_1533:1, "+
		"%[1]s_0000:81:02.0 CUSTOM_PCI_8086_1528:1", source)
	f.waitForAllocation(s, three)
	s = f.wantActiveOn(source, f.act(s, "ACTIVE", "confirmResize", nil))
	f.waitForAllocation(s, three)
	f.waitUntilIdle(target)
	f.delete(s)
	f.waitUntilIdle(source)
}

func testResizesOnOneHost(t *testing.T, f *fleet) {
	f.startAgent("cmp1", f.host("cmp1", bus81(t), deviceSpecs+reportInPlacement))
	vfs := func(n int) string { return fmt.Sprintf("cmp1_0000:81:03.0 CUSTOM_PCI_8086_1515:%d", n) }
	s := f.wantActiveOn("cmp1", f.server("here", "a-vf:1"))
	f.waitForAllocation(s, vfs(1))

	s = f.wantResized("cmp1", f.resize(s, "a-vf:2"))
	f.waitForAllocation(f.migrationOf(s), vfs(1))
	f.waitForAllocation(s, vfs(2))
	s = f.wantActiveOn("cmp1", f.act(s, "ACTIVE", "revertResize", nil))
	f.waitForAllocation(s, vfs(1))
	f.waitForUsages("cmp1", usagesOfVFs("1/4"))

	s = f.wantResized("cmp1", f.resize(s, "a-vf:2"))
	m := f.migrationOf(s)
	s = f.wantActiveOn("cmp1", f.act(s, "ACTIVE", "confirmResize", nil))
	f.waitForAllocation(s, vfs(2))
	f.waitForAllocation(m, "")
	f.waitForUsages("cmp1", usagesOfVFs("2/4"))
	f.delete(s)
	f.waitUntilIdle("cmp1")
}

// usagesOfVFs returns the usages of a host on which only VFs are allocated.
func usagesOfVFs(vfs string) map[string]string {
	return map[string]string{"81:00.0 1533": "0/1", "81:01.0 1533": "0/1", "81:02.0 1528": "0/1", "81:03.0 1515": vfs}
}

// waitUntilIdle waits until no device of the host is allocated, in Placement and in the agent's reports.
func (f *fleet) waitUntilIdle(host string) {
	f.t.Helper()
	f.waitForUsages(host, usagesOfVFs("0/4"))
	eventually(f.t, "no device is in use on "+host, func() (bool, error) {
		list, err := f.compute.hosts().Devices(f.t.Context())
		for _, d := range list {
			if d.Host == host && d.Holder != "" {
				return false, fmt.Errorf("%s has %s", d.Holder, d.Address)
			}
		}
		return err == nil, err
	})
}

// wantResized checks that a server is in VERIFY_RESIZE on a host.
func (f *fleet) wantResized(host string, s compute.Server) compute.Server {
	f.t.Helper()
	if s.Status != "VERIFY_RESIZE" || s.Host == nil || *s.Host != host {
		f.t.Fatalf("%s is %s on %+v, want it on %s: %+v", s.Name, s.Status, s.Place, host, s.Fault)
	}
	return s
}
