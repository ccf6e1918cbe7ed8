package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// If reporting is switched on during a resize, which the guide advises against, the allocations on both hosts are
// healed and the resize continues. An agent that is killed while it heals continues after its restart.
func TestUpgradeWhileMoving(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f, machine := newFleet(t, aliases), bus81(t)
	for _, host := range []string{"cmp1", "cmp2"} {
		f.startAgent(host, f.host(host, machine, deviceSpecs))
	}
	s := f.server("moving", "a-vf:2")
	source, target := "cmp1", "cmp2"
	if *s.Host == target {
		source, target = target, source
	}
	s = f.wantResized(target, f.resize(s, "a-pci-dev:2"))
	m := f.migrationOf(s)
	if got := f.allocation(s) + f.allocation(m); got != "" {
		t.Fatalf("Placement has %s before devices are reported", got)
	}
	if p, status := f.preflight(f.path("compute.conf")); status != 1 || len(p.Cloud) != 1 || !strings.Contains(p.Cloud[0],
		"is moving (VERIFY_RESIZE)") {
		t.Errorf("status %d: %+v", status, p)
	}
	for _, host := range []string{"cmp1", "cmp2"} {
		f.startAgent(host, f.host(host, machine, deviceSpecs+reportInPlacement))
		f.agents[host].kill()
		delete(f.agents, host)
		f.startAgent(host, f.path(host+".conf"))
	}
	f.waitForAllocation(m, source+"_0000:81:03.0 CUSTOM_PCI_8086_1515:2")
	f.waitForAllocation(s, fmt.Sprintf("%[1]s_0000:81:00.0 CUSTOM_PCI_8086_1533:1, %[1]s_0000:81:01.0 "+
		"CUSTOM_PCI_8086_1533:1", target))
	s = f.wantActiveOn(source, f.act(s, "ACTIVE", "revertResize", nil))
	f.waitForAllocation(s, source+"_0000:81:03.0 CUSTOM_PCI_8086_1515:2")
	f.waitUntilIdle(target)
	f.delete(s)
	f.waitUntilIdle(source)
}
