package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// fleet is a cloud of processes: placement, compute and an agent for each host. Tests change their configurations.
type fleet struct {
	t                  *testing.T
	dir                string
	placement, compute *daemon
	agents             map[string]*daemon
}

const deviceSpecs, aliases = `[pci]
device_spec = {"vendor_id": "8086", "product_id": "1533"}
device_spec = {"vendor_id": "8086", "product_id": "1528", "address": "0000:81:02.*"}
device_spec = {"vendor_id": "8086", "product_id": "1515", "address": "0000:81:03.*"}
`, `[pci]
alias = {"name": "a-pci-dev", "vendor_id": "8086", "product_id": "1533"}
alias = {"name": "a-pf", "vendor_id": "8086", "product_id": "1528", "device_type": "type-PF"}
alias = {"name": "a-vf", "vendor_id": "8086", "product_id": "1515", "device_type": "type-VF"}
`

const reportInPlacement, pciInPlacement = "report_in_placement = true\n", "[filter_scheduler]\npci_in_placement " +
	"= true\n"

// newFleet starts placement and compute.
func newFleet(t *testing.T, conf string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), agents: map[string]*daemon{}}
	f.placement = start(t, []string{"placement"}, "placement", "--config-file", f.file("placement", ""), "--data-dir",
		f.path("placement"), "--listen", "127.0.0.1:0")
	f.startCompute(conf)
	return f
}

func (f *fleet) path(name string) string { return filepath.Join(f.dir, name) }

// file writes a configuration and returns its path.
func (f *fleet) file(name, text string) string {
	f.t.Helper()
	path := f.path(name + ".conf")
	if err := os.WriteFile(path, []byte("[api]\nauth_strategy = noauth2\n"+text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// startCompute starts compute, or restarts it on the same address.
func (f *fleet) startCompute(conf string) {
	f.t.Helper()
	listen := "127.0.0.1:0"
	if f.compute != nil {
		f.compute.stop(f.t)
		listen = strings.TrimPrefix(f.compute.urls["compute"], "http://")
	}
	f.compute = start(f.t, []string{"compute"}, "compute", "--config-file", f.file("compute", conf), "--data-dir",
		f.path("compute"), "--listen", listen,
		"--placement-url", f.placement.urls["placement"])
	f.compute.urls["placement"] = f.placement.urls["placement"]
}

// host writes the configuration of a host with a captured machine.
func (f *fleet) host(name, machine, conf string) (file string) {
	return f.file(name, fmt.Sprintf("[DEFAULT]\nhost = %s\n[oslo_concurrency]\nlock_path = %s\n[berth]\nsysfs = "+
		"%s\nrescan_interval = 1\n%s",
		name, f.path("locks"), machine, conf))
}

// startAgent starts the agent of a host and stops the previous one. It returns when compute has received a report of
// the new one.
func (f *fleet) startAgent(name, file string) {
	t := f.t
	t.Helper()
	if old := f.agents[name]; old != nil {
		old.stop(t)
	}
	before := f.lastReport(name)
	a := start(t, nil, f.args("agent", "--config-file", file, "--data-dir", f.path(name))...)
	f.agents[name] = a
	eventually(t, "the agent of "+name+" reports", func() (bool, error) {
		select {
		case err := <-a.done:
			a.done <- err
			t.Fatalf("the agent of %s has ended: %v\n%s", name, err, a.log)
		default:
		}
		return f.lastReport(name) != before, nil
	})
}

func (f *fleet) lastReport(name string) string {
	list, err := f.compute.hosts().Hosts(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, h := range list {
		if h.Host == name {
			return fmt.Sprint(h.Seen.UnixNano(), h.InPlace)
		}
	}
	return ""
}

func (f *fleet) args(args ...string) []string {
	return append(args, "--placement-url", f.placement.urls["placement"], "--compute-url", f.compute.urls["compute"])
}

// flavor returns the id of the flavor with these devices, such as "a-vf:2". It creates the flavor if it does not exist.
func (f *fleet) flavor(alias string) string {
	t, c := f.t, f.compute.compute()
	t.Helper()
	flavor, err := c.Flavor(t.Context(), alias)
	if fault.Is(err, fault.NotFound) {
		if flavor, err = c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: alias, VCPUs: 1, RAM: 64}); err == nil {
			err = c.SetExtraSpecs(t.Context(), flavor.ID, map[string]string{"pci_passthrough:alias": alias})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return flavor.ID
}

// server creates a server with these devices and waits until it is ACTIVE or ERROR.
func (f *fleet) server(name, alias string) compute.Server {
	t, c := f.t, f.compute.compute()
	t.Helper()
	made, err := c.CreateServer(t.Context(), compute.CreateServer{Name: name, Flavor: f.flavor(alias)})
	if err != nil {
		t.Fatal(err)
	}
	var s compute.Server
	eventually(t, name+" is ACTIVE or ERROR", func() (bool, error) {
		s, err = c.Server(t.Context(), made.ID)
		return s.Status == "ACTIVE" || s.Status == "ERROR", err
	})
	return s
}

// wantActiveOn checks that a server is ACTIVE on a host, and returns it.
func (f *fleet) wantActiveOn(host string, s compute.Server) compute.Server {
	f.t.Helper()
	if s.Status != "ACTIVE" || s.Place == nil || s.Host == nil || *s.Host != host {
		f.t.Fatalf("%s is %s on %+v, want it on %s: %+v", s.Name, s.Status, s.Place, host, s.Fault)
	}
	return s
}

// allocation returns a server's devices in Placement, such as "cmp1_0000:81:00.0 CUSTOM_PCI_8086_1533:1", one for each
// provider, sorted.
func (f *fleet) allocation(s compute.Server) string {
	t, p := f.t, f.placement.placement()
	t.Helper()
	has, err := p.Allocation(t.Context(), resource.ConsumerID(s.ID))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for id, amounts := range has.Allocation {
		tree, err := p.Tree(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		one, _ := tree.ByID(id)
		for _, class := range slices.Sorted(maps.Keys(amounts)) {
			if resource.IsCustom(string(class)) {
				out = append(out, fmt.Sprintf("%s %s:%d", one.Name, class, amounts[class]))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// devices returns the addresses of a server's devices as the host reports them, sorted.
func (f *fleet) devices(s compute.Server) string {
	f.t.Helper()
	list, err := f.compute.hosts().Devices(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, d := range list {
		if d.Holder == s.ID {
			out = append(out, d.Address)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// usages returns the usage and the total of a host's device providers, such as "1/1" for "81:00.0 1533".
func (f *fleet) usages(host string) map[string]string {
	t, p := f.t, f.placement.placement()
	t.Helper()
	root, err := p.ProviderByName(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := p.Tree(t.Context(), root.ID)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, one := range tree.Providers {
		if one.Parent == "" {
			continue
		}
		used, err := p.Usages(t.Context(), one.ID)
		if err != nil {
			t.Fatal(err)
		}
		for class, inv := range one.Inventories {
			out[strings.TrimPrefix(one.Name, host+"_0000:")+" "+strings.TrimPrefix(string(class),
				"CUSTOM_PCI_8086_")] = fmt.Sprintf("%d/%d", used[class], inv.Total)
		}
	}
	return out
}

// waitForUsages waits until Placement has these usages of a host.
func (f *fleet) waitForUsages(host string, want map[string]string) {
	f.t.Helper()
	eventually(f.t, host+" has the expected usages in Placement", func() (bool, error) {
		got := f.usages(host)
		return maps.Equal(got, want), fmt.Errorf("%v, want %v", got, want)
	})
}

// preflight returns the report of berth preflight and its exit status.
func (f *fleet) preflight(conf string) (p cli.Preflight, status int) {
	f.t.Helper()
	stdout, stderr, status := output(f.t, f.args("preflight", "-o", "json", "--config-file", conf)...)
	if err := json.Unmarshal([]byte(stdout), &p); err != nil {
		f.t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	return p, status
}

// delete deletes servers and waits until they are gone.
func (f *fleet) delete(servers ...compute.Server) {
	f.t.Helper()
	for _, s := range servers {
		if _, stderr, status := output(f.t, f.args("server", "delete", s.ID, "--wait")...); status != 0 {
			f.t.Fatal(stderr)
		}
	}
}

// bus81 writes a captured machine: plain devices 81:00.0 and 81:01.0, a PF 81:02.0 without VFs, a PF 81:03.0 with four.
func bus81(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("A machine for tests.\n")
	device := func(at, product, links string, vfs int) {
		fmt.Fprintf(&b, "-- bus/pci/devices/0000:%[1]s -> ../../../devices/pci0000:80/0000:%[1]s --\n", at)
		dir := "devices/pci0000:80/0000:" + at + "/"
		for file, text := range map[string]string{"vendor": "0x8086", "device": "0x" + product, "class": "0x020000",
			"numa_node": "0"} {
			fmt.Fprintf(&b, "-- %s%s --\n%s\n", dir, file, text)
		}
		if product == "1528" {
			fmt.Fprintf(&b, "-- %[1]ssriov_totalvfs --\n4\n-- %[1]ssriov_numvfs --\n%[2]d\n", dir, vfs)
		}
		b.WriteString(links)
	}
	device("81:00.0", "1533", "", 0)
	device("81:01.0", "1533", "", 0)
	device("81:02.0", "1528", "", 0)
	device("81:03.0", "1528", "", 4)
	for n := range 4 {
		vf := fmt.Sprintf("81:03.%d", n+1)
		device(vf, "1515", fmt.Sprintf("-- devices/pci0000:80/0000:%[1]s/physfn -> ../0000:81:03.0 --\n-- "+
			"devices/pci0000:80/0000:81:03.0/virtfn%[2]d -> ../0000:%[1]s --\n", vf, n), 0)
	}
	path := filepath.Join(t.TempDir(), "machine.txtar")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

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
			`alias = {"name": "a-vf", "vendor_id": "10de", "product_id": "1515", "device_type": "type-VF", "resource_class": "CUSTOM_GPU"}`)
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
