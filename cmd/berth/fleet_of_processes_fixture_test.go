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
	"github.com/openberth/berth/condition"
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
	f := &fleet{t: t, dir: testenv.MemoryDir(t), agents: map[string]*daemon{}}
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

// startCompute starts compute, or restarts it on the same address, also after it was killed.
func (f *fleet) startCompute(conf string) {
	f.t.Helper()
	listen := "127.0.0.1:0"
	if f.compute != nil {
		if !f.compute.ended() {
			f.compute.stop(f.t)
		}
		listen = strings.TrimPrefix(f.compute.urls["compute"], "http://")
	}
	f.compute = start(f.t, []string{"compute"}, "compute", "--config-file", f.file("compute", conf), "--data-dir",
		f.path("compute"), "--listen", listen,
		"--placement-url", f.placement.urls["placement"])
	f.compute.urls["placement"] = f.placement.urls["placement"]
}

// host writes the configuration of a host with a captured machine.
func (f *fleet) host(name, machine, conf string) (file string) {
	return f.file(name, fmt.Sprintf("[DEFAULT]\nhost = %s\ncompute_driver = fake.FakeDriver\n"+
		"[oslo_concurrency]\nlock_path = %s\n[berth]\nsysfs = "+
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
	testenv.Until(t, "the agent of "+name+" reports", func() (bool, error) {
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
		if h.Host == name && h.Provider != "" {
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
	testenv.Until(t, name+" is ACTIVE or ERROR", func() (bool, error) {
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
	testenv.Until(f.t, host+" has the expected usages in Placement", func() (bool, error) {
		got := f.usages(host)
		return maps.Equal(got, want), fmt.Errorf("%v, want %v", got, want)
	})
}

// conditions returns the conditions of a host.
func (f *fleet) conditions(name string) string {
	f.t.Helper()
	list, err := f.compute.hosts().Hosts(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, h := range list {
		if h.Host == name {
			return strings.Join(condition.Texts(h.Conditions), "\n")
		}
	}
	return ""
}

// berth runs a command and checks its exit status.
func (f *fleet) berth(want int, args ...string) (stdout, stderr string) {
	f.t.Helper()
	stdout, stderr, status := output(f.t, f.args(args...)...)
	if status != want {
		f.t.Errorf("berth %s: status %d\n%s%s", strings.Join(args, " "), status, stdout, stderr)
	}
	return stdout, stderr
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

// guests returns the contents of the files of a host's guests, by id.
func (f *fleet) guests(host string) map[string]string {
	f.t.Helper()
	return guestsIn(f.t, f.path(host))
}

func guestsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "agent", "guests", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range files {
		out[strings.TrimSuffix(filepath.Base(file), ".json")] = read(t, file)
	}
	return out
}

// waitForCondition waits for a condition of a host that contains text.
func (f *fleet) waitForCondition(host, text string) {
	f.t.Helper()
	testenv.Until(f.t, host+" has the condition: "+text, func() (bool, error) {
		got := f.conditions(host)
		return strings.Contains(got, text), fmt.Errorf("conditions %q", got)
	})
}

// copyDir replaces the directory to by a copy of from.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func other(host string) string {
	return map[string]string{"cmp1": "cmp2", "cmp2": "cmp1"}[host]
}
