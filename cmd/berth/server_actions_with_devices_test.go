package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

const migratable = `alias = {"name": "lm", "vendor_id": "8086", "product_id": "1515", "device_type": "type-VF", ` +
	`"live_migratable": "true"}` + "\n"

// All actions on a server with devices, on two hosts: stop and start, rebuild, live migration, shelve and unshelve, and
// evacuation, after which the old host returns.
func TestAllActionsWithDevices(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{"without pci_in_placement": aliases + migratable,
		"with pci_in_placement": aliases + migratable + pciInPlacement} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLifecycle(t, newFleet(t, conf))
		})
	}
}

func testLifecycle(t *testing.T, f *fleet) {
	machine, files := bus81(t), map[string]string{}
	for _, host := range []string{"cmp1", "cmp2"} {
		files[host] = f.host(host, machine, strings.Replace(deviceSpecs, `"1515"`, `"1515", "live_migratable": "true"`,
			1)+reportInPlacement)
		f.startAgent(host, files[host])
	}
	vfs := func(host string, n int) string {
		return fmt.Sprintf("%s_0000:81:03.0 CUSTOM_PCI_8086_1515:%d", host, n)
	}
	s := f.server("living", "lm:2")
	source, target := "cmp1", "cmp2"
	if *s.Host == target {
		source, target = target, source
	}
	s = f.wantActiveOn(source, s)
	f.waitForAllocation(s, vfs(source, 2))
	devices := f.devices(s)
	for _, step := range []struct {
		action, status string
		args           map[string]any
	}{{"os-stop", "SHUTOFF", nil}, {"os-start", "ACTIVE", nil}, {"rebuild", "ACTIVE", map[string]any{"imageRef": ""}},
		{"reboot", "ACTIVE", map[string]any{"type": "SOFT"}}} {
		s = f.act(s, step.status, step.action, step.args)
		if got := f.devices(s); got != devices {
			t.Errorf("devices after %s: %q, before %q", step.action, got, devices)
		}
	}

	s = f.wantActiveOn(target, f.act(s, "ACTIVE", "os-migrateLive", map[string]any{"host": nil,
		"block_migration": "auto"}))
	f.waitForAllocation(s, vfs(target, 2))
	f.waitUntilIdle(source)
	source, target = target, source
	fixed := f.server("fixed", "a-pci-dev:1")
	if err := f.compute.compute().Act(t.Context(), fixed.ID, "os-migrateLive", map[string]any{"host": nil,
		"block_migration": "auto"}); err == nil {
		t.Error("a server with devices that are not live-migratable was migrated live")
	}
	f.delete(fixed)

	s = f.act(s, "SHELVED_OFFLOADED", "shelve", nil)
	f.waitForAllocation(s, "")
	f.waitUntilIdle(source)
	s = f.act(s, "ACTIVE", "unshelve", nil)
	if source = *s.Host; source == target {
		target = map[string]string{"cmp1": "cmp2", "cmp2": "cmp1"}[source]
	}
	f.waitForAllocation(s, vfs(source, 2))

	// Its host fails, and returns after the evacuation.
	f.agents[source].kill()
	if err := f.compute.compute().Act(t.Context(), s.ID, "evacuate", nil); err == nil {
		t.Error("a server was evacuated from a host that is not marked down")
	}
	if err := f.compute.compute().HostDown(t.Context(), source, true); err != nil {
		t.Fatal(err)
	}
	s = f.wantActiveOn(target, f.act(s, "ACTIVE", "evacuate", map[string]any{}))
	f.waitForAllocation(s, vfs(target, 2))
	if err := f.compute.compute().HostDown(t.Context(), source, false); err != nil {
		t.Fatal(err)
	}
	delete(f.agents, source)
	f.startAgent(source, files[source])
	f.waitUntilIdle(source)
	guests, err := filepath.Glob(filepath.Join(f.path(source), "agent", "guests", "*.json"))
	if err != nil || len(guests) > 0 {
		t.Errorf("the returned host still has guests %v (%v)", guests, err)
	}
	f.waitForAllocation(s, vfs(target, 2))
	f.delete(s)
	f.waitUntilIdle(target)
}
