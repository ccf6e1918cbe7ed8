package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// The upgrade in two phases, from servers whose devices are not in Placement: first the agents report, host by host,
// then the scheduler uses pci_in_placement. Reporting cannot be switched off again. Every service is a separate
// process.
func TestUpgradeInTwoPhases(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	machine := bus81(t)
	f := newFleet(t, aliases)

	// The cloud before the upgrade: neither option is on. cmp1 offers the PF 81:03.0 and its VFs, cmp2 has a devname.
	old1 := f.host("cmp1", machine, `[pci]
device_spec = {"vendor_id": "8086", "product_id": "1533"}
device_spec = {"vendor_id": "8086", "product_id": "1528"}
device_spec = {"vendor_id": "8086", "product_id": "1515"}
`)
	f.startAgent("cmp1", old1)
	pcis, mixed, vfs := f.wantActiveOn("cmp1", f.server("pcis", "a-pci-dev:2")), f.wantActiveOn("cmp1",
		f.server("mixed", "a-pf:1,a-vf:1")), f.wantActiveOn("cmp1", f.server("vfs", "a-vf:2"))
	old2 := f.host("cmp2", machine, deviceSpecs+`device_spec = {"devname": "eth7"}`+"\n")
	f.startAgent("cmp2", old2)
	one, fast := f.wantActiveOn("cmp2", f.server("one", "a-pci-dev:1")), f.wantActiveOn("cmp2", f.server("fast", "a-vf:2"))
	if got := len(strings.Fields(f.devices(pcis) + " " + f.devices(mixed) + " " + f.devices(vfs))); got != 6 ||
		f.allocation(pcis)+f.allocation(one) != "" {
		t.Fatalf("%d devices are allocated, want 6; Placement has %s %s", got, f.allocation(pcis), f.allocation(one))
	}

	// Preflight reports all obstacles, by host and for the cloud.
	contradicting := f.file("twice",
		aliases+
			`alias = {"name": "a-vf", "vendor_id": "10de", "product_id": "1515", "device_type": "type-VF", `+
			`"resource_class": "CUSTOM_GPU"}`)
	p, status := f.preflight(contradicting)
	if status != 1 || p.Ready || len(p.Hosts) != 2 || len(p.Cloud) != 1 || !strings.Contains(p.Cloud[0],
		`twice.conf:7: [pci] alias`) {
		t.Errorf("status %d: %+v", status, p)
	}
	if stops := strings.Join(p.Hosts[0].Stops, "\n"); !strings.Contains(stops, "remove the PF from device_spec") ||
		!strings.Contains(stops, "report_in_placement = true") {
		t.Errorf("cmp1: %s", stops)
	}
	f.wantPreflightError("the PF 0000:81:03.0", "keep the VFs, of which 0000:81:03.", "cmp1", old1)
	f.wantPreflightError("devname", "eth7", "cmp2", old2)

	// Phase one on cmp1: the configuration is corrected, reporting is switched on, and allocations are healed.
	new1 := f.host("cmp1", machine, deviceSpecs+reportInPlacement)
	if stdout, stderr, status := f.agentPreflight("cmp1",
		new1); status != 0 || !strings.Contains(stdout, "create provider  cmp1_0000:81:03.0") || !strings.Contains(stdout,
		"cannot be switched off") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	f.startAgent("cmp1", new1)
	h2 := map[string]string{"81:00.0 1533": "1/1", "81:01.0 1533": "1/1", "81:02.0 1528": "1/1", "81:03.0 1515": "3/4"}
	f.waitForUsages("cmp1", h2)
	for want, s := range map[string]compute.Server{
		"cmp1_0000:81:00.0 CUSTOM_PCI_8086_1533:1, cmp1_0000:81:01.0 CUSTOM_PCI_8086_1533:1": pcis,
		"cmp1_0000:81:02.0 CUSTOM_PCI_8086_1528:1, cmp1_0000:81:03.0 CUSTOM_PCI_8086_1515:1": mixed,
		"cmp1_0000:81:03.0 CUSTOM_PCI_8086_1515:2":                                           vfs,
	} {
		if got := f.allocation(s); got != want {
			t.Errorf("%s: Placement has %q, want %q", s.Name, got, want)
		}
	}
	if stdout, stderr, status := output(t, f.args("agent", "plan", "--config-file", new1, "--data-dir",
		f.path("cmp1"))...); status != 0 || !strings.Contains(stdout, "nothing to do") {
		t.Errorf("plan after healing: status %d\n%s%s", status, stdout, stderr)
	}

	// A server from before the upgrade can be stopped and started.
	devices := f.devices(vfs)
	f.act(vfs, "SHUTOFF", "os-stop", nil)
	if vfs = f.act(vfs, "ACTIVE", "os-start", nil); f.devices(vfs) != devices {
		t.Errorf("devices before %s, now %s", devices, f.devices(vfs))
	}

	// Between the phases: pci_in_placement is on, but cmp2 does not report yet. It gets no further servers with devices.
	f.startCompute(aliases + pciInPlacement)
	last := f.wantActiveOn("cmp1", f.server("last", "a-vf:1"))
	if s := f.server("none", "a-vf:1"); s.Status != "ERROR" || s.Fault == nil || !strings.Contains(s.Fault.Message,
		"CUSTOM_PCI_8086_1515") {
		t.Errorf("%s: %+v", s.Status, s.Fault)
	}
	if p, status := f.preflight(f.path("compute.conf")); status != 1 || !p.Hosts[0].Reports || len(p.Hosts[0].Stops) > 0 ||
		p.Hosts[1].Reports || len(p.Hosts[1].Stops) != 1 || len(p.Cloud) > 0 {
		t.Errorf("status %d: %+v", status, p)
	}

	// Phase one on cmp2. At the same time its VFs get another resource class, although a server has two of them.
	f.startAgent("cmp2",
		f.host("cmp2", machine, strings.Replace(deviceSpecs, `"1515"`, `"1515", "resource_class": "CUSTOM_FAST"`,
			1)+reportInPlacement))
	h1 := map[string]string{"81:00.0 1533": "0/1", "81:01.0 1533": "0/1", "81:02.0 1528": "0/1",
		"81:03.0 CUSTOM_FAST": "2/4"}
	h1[strings.TrimPrefix(f.devices(one), "0000:")+" 1533"] = "1/1"
	f.waitForUsages("cmp2", h1)
	if got, want := f.allocation(one), "cmp2_"+f.devices(one)+" CUSTOM_PCI_8086_1533:1"; got != want {
		t.Errorf("Placement has %q, want %q", got, want)
	}

	// Phase two: every host reports.
	f.startCompute(aliases + `alias = {"name": "fast", "resource_class": "CUSTOM_FAST"}` + "\n" + pciInPlacement)
	if p, status := f.preflight(f.path("compute.conf")); status != 0 || !p.Ready {
		t.Errorf("status %d: %+v", status, p)
	}
	more := f.wantActiveOn("cmp2", f.server("more", "fast:1"))

	// Servers from before and after the upgrade can be deleted.
	f.delete(pcis, mixed, vfs, one, fast, last, more)
	f.waitForUsages("cmp1", map[string]string{"81:00.0 1533": "0/1", "81:01.0 1533": "0/1", "81:02.0 1528": "0/1",
		"81:03.0 1515": "0/4"})
	f.waitForUsages("cmp2", map[string]string{"81:00.0 1533": "0/1", "81:01.0 1533": "0/1", "81:02.0 1528": "0/1",
		"81:03.0 CUSTOM_FAST": "0/4"})
	f.agents["cmp1"].stop(t)
	if _, stderr, status := output(t, f.args("agent", "--config-file", f.host("cmp1", machine, deviceSpecs), "--data-dir",
		f.path("cmp1"))...); status != 1 || !strings.Contains(stderr, "cannot be switched off once it was on") {
		t.Errorf("reporting switched off: status %d: %s", status, stderr)
	}
}

func (f *fleet) agentPreflight(name, file string) (stdout, stderr string, status int) {
	f.t.Helper()
	return output(f.t, f.args("agent", "preflight", "--config-file", file, "--data-dir", f.path(name))...)
}

// wantPreflightError checks that a host's preflight fails with both texts and changes nothing.
func (f *fleet) wantPreflightError(what, why, name, file string) {
	f.t.Helper()
	stdout, stderr, status := f.agentPreflight(name, file)
	if status != 1 || !strings.Contains(stderr, what) || !strings.Contains(stderr, why) {
		f.t.Errorf("%s: status %d\n%s%s", name, status, stdout, stderr)
	}
	if got := f.usages(name); len(got) > 0 {
		f.t.Errorf("%s: preflight changed the usages: %v", name, got)
	}
}
