package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// lab is a whole cloud in memory on the captured sample machine: two NVMe PFs of four VFs each and a plain device.
type lab struct {
	t     *testing.T
	dir   string
	cloud *Cloud
}

func newLab(t *testing.T) *lab { return &lab{t: t, dir: t.TempDir()} }

// up starts the cloud with this configuration, on the existing state.
func (l *lab) up(conf string) {
	l.t.Helper()
	machine, err := sysfs.Sample()
	if err != nil {
		l.t.Fatal(err)
	}
	text, err := sysfs.Capture(machine)
	if err != nil {
		l.t.Fatal(err)
	}
	sys, file := filepath.Join(l.dir, "machine.txtar"), filepath.Join(l.dir, "berth.conf")
	for name, data := range map[string]string{sys: string(text),
		file: conf + "\n[DEFAULT]\nhost = cmp1\n[oslo_concurrency]\nlock_path = " + filepath.Dir(sys) +
			"\n[api]\nauth_strategy = noauth2\n[berth]\nrescan_interval = 1\nsysfs = " + sys + "\n"} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	log := slog.New(slog.NewTextHandler(l.t.Output(), nil))
	config, err := settings.Read(log, file)
	if err != nil {
		l.t.Fatal(err)
	}
	if l.cloud, err = Up(l.t.Context(), config, l.dir, log); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) down() {
	l.t.Helper()
	if err := l.cloud.Close(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) compute() *compute.Client {
	return compute.NewClient("http://compute", rest.InMemory(l.cloud.Compute.Handler), "admin")
}

// boot creates a server of a flavor with these extra specs and waits for the status.
func (l *lab) boot(name, status string, specs map[string]string) compute.Server {
	l.t.Helper()
	f, err := l.compute().CreateFlavor(l.t.Context(), compute.CreateFlavor{Name: "f-" + name, VCPUs: 1, RAM: 64, Disk: 1})
	if err == nil {
		err = l.compute().SetExtraSpecs(l.t.Context(), f.ID, specs)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	made, err := l.compute().CreateServer(l.t.Context(), compute.CreateServer{Name: name, Flavor: f.ID})
	if err != nil {
		l.t.Fatal(err)
	}
	var server compute.Server
	l.until(name+" "+status, func() bool {
		server, err = l.compute().Server(l.t.Context(), made.ID)
		return err == nil && server.Status == status
	})
	return server
}

func (l *lab) delete(id string) {
	l.t.Helper()
	if err := l.compute().DeleteServer(l.t.Context(), id); err != nil {
		l.t.Fatal(err)
	}
	l.until("nothing is allocated", func() bool { return len(l.allocation(id)) == 0 })
}

func (l *lab) until(what string, holds func() bool) {
	l.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	l.t.Fatalf("never: %s", what)
}

func (l *lab) allocation(consumer string) resource.Allocation {
	l.t.Helper()
	held, err := l.cloud.PlacementClient().Allocation(l.t.Context(), resource.ConsumerID(consumer))
	if err != nil {
		l.t.Fatal(err)
	}
	return held.Allocation
}

func (l *lab) provider(name string) provider.Provider {
	l.t.Helper()
	root, err := l.cloud.PlacementClient().ProviderByName(l.t.Context(), "cmp1")
	if err != nil {
		l.t.Fatal(err)
	}
	tree, err := l.cloud.PlacementClient().Tree(l.t.Context(), root.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	p, _ := tree.ByName(name)
	return p
}

func (l *lab) conditions() string {
	l.t.Helper()
	hosts, err := l.cloud.HostClient().Hosts(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	var all []string
	for _, h := range hosts {
		all = append(all, h.Conditions...)
	}
	return strings.Join(all, "\n")
}

// sampleProducts returns the product of the sample's VFs, and the product and address of its plain device.
func sampleProducts(t *testing.T) (vf, plain string) {
	t.Helper()
	machine, err := sysfs.Sample()
	if err != nil {
		t.Fatal(err)
	}
	facts, err := sysfs.Read(machine)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range facts.Devices {
		switch {
		case d.Parent != nil:
			vf = d.Vendor + ":" + d.Product
		case d.TotalVFs == 0 && !d.IsBridge():
			plain = d.Vendor + ":" + d.Product + " " + d.Address.String()
		}
	}
	return vf, plain
}

// When reporting is switched on, an existing server gets its allocation of devices in one reshape, and keeps its other
// allocations. Afterwards the plan is empty. With scheduling through Placement the next server gets remaining devices.
func TestHealingWithPlacement(t *testing.T) {
	testenv.Long(t)
	l := newLab(t)
	vf, _ := sampleProducts(t)
	vendor, product, _ := strings.Cut(vf, ":")
	pciConf := `
[pci]
device_spec = {"vendor_id":"` + vendor + `","product_id":"` + product +
		`","address":{"domain":".*","bus":".*","slot":".*","function":"[1-4]"}}
alias = {"name":"vf","vendor_id":"` + vendor + `","product_id":"` + product + `","device_type":"type-VF"}
`
	l.up(pciConf)
	s := l.boot("before", "ACTIVE", map[string]string{"pci_passthrough:alias": "vf:3"})
	if n := len(l.allocation(s.ID)); n != 1 {
		t.Fatalf("%v", l.allocation(s.ID))
	}
	l.down()
	l.up(pciConf + "report_in_placement = true\n")
	total := func(a resource.Allocation) (n int) {
		for _, amounts := range a {
			n += amounts[resource.Class("CUSTOM_PCI_"+strings.ToUpper(vendor+"_"+product))]
		}
		return n
	}
	l.until("healed", func() bool { return total(l.allocation(s.ID)) == 3 })
	var vcpus int
	for _, amounts := range l.allocation(s.ID) {
		vcpus += amounts["VCPU"]
	}
	if vcpus != 1 {
		t.Errorf("%v", l.allocation(s.ID))
	}
	l.until("quiet", func() bool {
		_, empty, err := l.cloud.Plan(t.Context())
		return err == nil && empty && l.conditions() == ""
	})
	l.down()
	l.up(pciConf + "report_in_placement = true\n[filter_scheduler]\npci_in_placement = true\n")
	l.boot("five", "ACTIVE", map[string]string{"pci_passthrough:alias": "vf:5"})
	l.boot("one", "ERROR", map[string]string{"pci_passthrough:alias": "vf:1"})
	l.delete(s.ID)
	l.boot("again", "ACTIVE", map[string]string{"pci_passthrough:alias": "vf:3"})
	l.down()
}

// A device for one-time use, with Placement, scheduler and command line: it is used once, not allocated again, cleaned
// by the operator's program, and used again.
func TestOneTimeUseWithPlacement(t *testing.T) {
	testenv.Long(t)
	l := newLab(t)
	_, plain := sampleProducts(t)
	_, address, _ := strings.Cut(plain, " ")
	program := filepath.Join(l.dir, "clean-device")
	if err := os.WriteFile(program,
		[]byte("#!/bin/sh\ntest -e "+l.dir+"/wiper || { echo the wiper is out of order; exit 1; }\necho $1 >> "+l.dir+
			"/cleaned\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.up(`
[berth]
device_clean_command = ` + program + `
[pci]
report_in_placement = true
device_spec = {"address":"` + address + `","resource_class":"gpu","one_time_use":true}
alias = {"name":"gpu","resource_class":"gpu"}
[filter_scheduler]
pci_in_placement = true
`)
	defer l.down()
	name := "cmp1_" + strings.ToUpper(address)
	gpu := map[string]string{"pci_passthrough:alias": "gpu:1"}
	s := l.boot("first", "ACTIVE", gpu)
	l.until("it is reserved", func() bool { return l.provider(name).Inventories["CUSTOM_GPU"].Reserved == 1 })
	l.delete(s.ID)
	l.boot("second", "ERROR", gpu)
	var out bytes.Buffer
	globals := &cli.Globals{ComputeURL: "http://compute", HTTP: rest.InMemory(l.cloud.Compute.Handler), Token: "admin",
		Stdout: &out}
	clean := cli.DeviceCleanCmd{Host: "cmp1", Address: address, Wait: time.Minute}
	if err := clean.Run(globals); err == nil || !strings.Contains(err.Error(), "the wiper is out of order") {
		t.Errorf("cleaned: %v", err)
	}
	if err := (&cli.DeviceListCmd{}).Run(globals); err != nil || !strings.Contains(out.String(),
		"available, used, not cleaned") {
		t.Errorf("%v\n%s", err, &out)
	}
	out.Reset()
	if err := (&cli.DeviceShowCmd{Host: "cmp1", Address: address}).Run(globals); err != nil ||
		!regexp.MustCompile(`(?m)^cleaning refused .*the wiper is out of order`).MatchString(out.String()) {
		t.Errorf("%v\n%s", err, &out)
	}
	out.Reset()
	if err := os.WriteFile(filepath.Join(l.dir, "wiper"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := clean.Run(globals); err != nil {
		t.Fatal(err)
	}
	if said, err := os.ReadFile(filepath.Join(l.dir, "cleaned")); err != nil || string(said) != address+"\n" ||
		out.String() != address+" of cmp1 is clean\n" {
		t.Errorf("%q %v %q", said, err, out.String())
	}
	l.until("it is given back", func() bool { return l.provider(name).Inventories["CUSTOM_GPU"].Reserved == 0 })
	l.boot("third", "ACTIVE", gpu)
	if err := clean.Run(globals); err == nil || !strings.Contains(err.Error(), "held by server") {
		t.Errorf("cleaned under its guest: %v", err)
	}
}

// A server on one host, with the scheduler, Placement, compute and the agent: it is stopped, started, rebuilt, resized
// to more devices and reverted, resized and confirmed, and deleted. After each step the allocations in Placement and
// the agent's devices agree.
func TestServerLifecycleOnOneHost(t *testing.T) {
	testenv.Long(t)
	l := newLab(t)
	vf, _ := sampleProducts(t)
	vendor, product, _ := strings.Cut(vf, ":")
	class := resource.Class("CUSTOM_PCI_" + strings.ToUpper(vendor+"_"+product))
	l.up(`
[pci]
report_in_placement = true
device_spec = {"vendor_id":"` + vendor + `","product_id":"` + product +
		`","address":{"domain":".*","bus":".*","slot":".*","function":"[1-4]"}}
alias = {"name":"vf","vendor_id":"` + vendor + `","product_id":"` + product + `","device_type":"type-VF"}
[filter_scheduler]
pci_in_placement = true
[DEFAULT]
allow_resize_to_same_host = true
`)
	defer l.down()
	s := l.boot("web", "ACTIVE", map[string]string{"pci_passthrough:alias": "vf:1"})
	big, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "big", VCPUs: 2, RAM: 64, Disk: 1})
	if err == nil {
		err = l.compute().SetExtraSpecs(t.Context(), big.ID, map[string]string{"pci_passthrough:alias": "vf:3"})
	}
	if err != nil {
		t.Fatal(err)
	}
	// books are the devices that a consumer has in Placement, and those that the agent says it has.
	books := func(consumer string) (placement, agent int) {
		for _, amounts := range l.allocation(consumer) {
			placement += amounts[class]
		}
		devices, err := l.cloud.HostClient().Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			if d.Holder == consumer {
				agent++
			}
		}
		return placement, agent
	}
	held := func() (n int) {
		devices, err := l.cloud.HostClient().Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			if d.Holder != "" {
				n++
			}
		}
		return n
	}
	act := func(action, status string, devices, all int, args map[string]any) {
		t.Helper()
		if err := l.compute().Act(t.Context(), s.ID, action, args); err != nil {
			t.Fatalf("%s: %v", action, err)
		}
		l.until(action+" → "+status, func() bool {
			server, err := l.compute().Server(t.Context(), s.ID)
			p, a := books(s.ID)
			return err == nil && server.Status == status && server.TaskState == nil && p == devices && a == devices &&
				held() == all
		})
	}
	act("os-stop", "SHUTOFF", 1, 1, nil)
	act("os-start", "ACTIVE", 1, 1, nil)
	act("rebuild", "ACTIVE", 1, 1, map[string]any{"imageRef": "70a599e0-31e7-49b7-b260-868f441e862b"})
	act("resize", "VERIFY_RESIZE", 3, 4, map[string]any{"flavorRef": big.ID})
	act("revertResize", "ACTIVE", 1, 1, nil)
	act("resize", "VERIFY_RESIZE", 3, 4, map[string]any{"flavorRef": big.ID})
	act("confirmResize", "ACTIVE", 3, 3, nil)
	act("shelve", "SHELVED_OFFLOADED", 0, 0, nil)
	act("unshelve", "ACTIVE", 3, 3, nil)
	l.until("quiet", func() bool {
		_, empty, err := l.cloud.Plan(t.Context())
		return err == nil && empty && l.conditions() == ""
	})
	l.delete(s.ID)
	l.until("nothing is held", func() bool { return held() == 0 })
}

// A host is not removed while its agent may be running or a server is on it; then it is removed from compute and
// Placement. If it returns, it is a new host.
func TestForgetHost(t *testing.T) {
	testenv.Long(t)
	l := newLab(t)
	vf, _ := sampleProducts(t)
	vendor, product, _ := strings.Cut(vf, ":")
	l.up(`
[pci]
report_in_placement = true
device_spec = {"vendor_id":"` + vendor + `","product_id":"` + product +
		`","address":{"function":"[1-7]"},"resource_class":"vf"}
alias = {"name":"vf","resource_class":"vf"}
[filter_scheduler]
pci_in_placement = true
`)
	defer l.down()
	s := l.boot("web", "ACTIVE", map[string]string{"pci_passthrough:alias": "vf:1"})
	if err := l.cloud.StopAgent(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	globals := &cli.Globals{ComputeURL: "http://compute", HTTP: rest.InMemory(l.cloud.Compute.Handler), Token: "admin",
		Stdout: &out}
	forget := func() error { return (&cli.HostForgetCmd{Host: "cmp1"}).Run(globals) }
	if err := forget(); err == nil || !strings.Contains(err.Error(), "host cmp1 may still be alive") {
		t.Errorf("while its agent may be running: %v", err)
	}
	if err := (&cli.HostDownCmd{Host: "cmp1"}).Run(globals); !fault.Is(err, fault.Conflict) {
		t.Errorf("its agent reported recently: %v", err)
	}
	if err := (&cli.HostDownCmd{Host: "cmp1", Force: true}).Run(globals); err != nil {
		t.Fatal(err)
	}
	if err := forget(); err == nil || !strings.Contains(err.Error(), "host cmp1") ||
		!strings.Contains(err.Error(), "web ("+s.ID+")") {
		t.Errorf("while a server is on it: %v", err)
	}
	l.delete(s.ID)
	if err := forget(); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^cmp1_0000:[^ ]+ +removed$`).MatchString(out.String()) ||
		!regexp.MustCompile(`(?m)^cmp1 +removed$`).MatchString(out.String()) {
		t.Errorf("it says\n%s", &out)
	}
	hosts, err := l.cloud.HostClient().Hosts(t.Context())
	if err != nil || len(hosts) != 0 {
		t.Errorf("compute knows %v: %v", hosts, err)
	}
	if p, err := l.cloud.PlacementClient().ProviderByName(t.Context(), "cmp1"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Placement has %+v: %v", p, err)
	}
	if err := l.cloud.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.boot("again", "ACTIVE", map[string]string{"pci_passthrough:alias": "vf:1"})
}
