package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// restartPlacement stops placement, calls between with the path of its database, and starts it on the same address.
func (f *fleet) restartPlacement(between func(database string)) {
	f.t.Helper()
	listen := strings.TrimPrefix(f.placement.urls["placement"], "http://")
	f.placement.stop(f.t)
	between(filepath.Join(f.path("placement"), "placement.db"))
	f.placement = start(f.t, []string{"placement"}, "placement", "--config-file", f.path("placement.conf"),
		"--data-dir", f.path("placement"), "--listen", listen)
}

// copyFile copies a database that is closed.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	for _, rest := range []string{"-wal", "-shm"} {
		if err := os.Remove(to + rest); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if _, err := os.Stat(from + rest); err == nil {
			t.Fatalf("%s is not closed: there is %s", from, rest)
		}
	}
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// createPlain creates a server with these VCPUs and without devices, and waits until it is ACTIVE or ERROR.
func (f *fleet) createPlain(name string, vcpus int) compute.Server {
	t, c := f.t, f.compute.compute()
	t.Helper()
	flavor, err := c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f-" + name, VCPUs: vcpus, RAM: 64})
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.CreateServer(t.Context(), compute.CreateServer{Name: name, Flavor: flavor.ID})
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

// guestVCPUs returns how many VCPUs the guests of a host have in its hypervisor.
func (f *fleet) guestVCPUs(name string) (sum int) {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.path(name), "agent", "guests", "*.json"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		var guest struct{ VCPUs int }
		if err == nil {
			err = json.Unmarshal(data, &guest)
		}
		if err != nil || guest.VCPUs == 0 {
			f.t.Fatalf("%s: %+v %v", file, guest, err)
		}
		sum += guest.VCPUs
	}
	return sum
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
			return strings.Join(h.Conditions, "\n")
		}
	}
	return ""
}

// usedVCPUs returns the usage of a host in Placement.
func (f *fleet) usedVCPUs(name string) int {
	f.t.Helper()
	p := f.placement.placement()
	root, err := p.ProviderByName(f.t.Context(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	used, err := p.Usages(f.t.Context(), root.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	return used["VCPU"]
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

// After an older database of Placement was restored, the scheduler refuses a host until an operator has written the
// missing allocations back. The host never runs more than its capacity.
func TestPlacementRestored(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newFleet(t, "")
	f.startAgent("cmp1", f.host("cmp1", bus81(t), "fake_vcpus = 64\n"))
	f.startAgent("cmp2", f.host("cmp2", bus81(t), "fake_vcpus = 4\n"))
	for n := range 4 {
		f.wantActiveOn("cmp1", f.createPlain(fmt.Sprint("old-", n), 8))
	}
	backup := f.path("backup.db")
	f.restartPlacement(func(database string) { copyFile(t, database, backup) })
	for n := range 4 {
		f.wantActiveOn("cmp1", f.createPlain(fmt.Sprint("later-", n), 8))
	}
	if n := f.usedVCPUs("cmp1"); n != 64 {
		t.Fatalf("%d VCPUs are used", n)
	}
	f.restartPlacement(func(database string) { copyFile(t, backup, database) })
	if n := f.usedVCPUs("cmp1"); n != 32 {
		t.Fatalf("the restored database has %d VCPUs used", n)
	}

	// cmp1 is refused, and the reason is in the fault and in `why`. Another host can be used.
	f.wantMissingAllocations(f.createPlain("more", 8))
	why, _ := f.berth(0, "server", "why", "more")
	if !strings.Contains(why, "rejected by AllocationsFilter: 1 hosts (cmp1): Placement lacks allocations") {
		t.Errorf("%s", why)
	}
	f.wantActiveOn("cmp2", f.createPlain("small", 4))
	eventually(t, "a condition names the servers", func() (bool, error) {
		text := f.conditions("cmp1")
		named := strings.Contains(text, "server later-0 (") && strings.Contains(text, "lacks MEMORY_MB:64,VCPU:8")
		return named && !strings.Contains(text, "old-"), fmt.Errorf("%s", text)
	})
	if n := f.guestVCPUs("cmp1"); n != 64 {
		t.Errorf("the guests of cmp1 have %d VCPUs", n)
	}

	// The plan changes nothing. With --apply it is executed, and the host is full.
	plan, _ := f.berth(0, "host", "heal", "cmp1")
	if strings.Count(plan, "would be written") != 4 || f.usedVCPUs("cmp1") != 32 {
		t.Errorf("%d VCPUs are used after the plan\n%s", f.usedVCPUs("cmp1"), plan)
	}
	f.berth(0, "host", "heal", "cmp1", "--apply")
	if n, text := f.usedVCPUs("cmp1"), f.conditions("cmp1"); n != 64 || strings.Contains(text, "lacks") {
		t.Errorf("%d VCPUs are used, the condition is %q", n, text)
	}
	if plan, _ := f.berth(0, "host", "heal", "cmp1"); !strings.Contains(plan, "nothing to write") {
		t.Errorf("%s", plan)
	}
	if s := f.createPlain("another", 8); s.Status != "ERROR" || strings.Contains(s.Fault.Message, "lacks") {
		t.Errorf("%s, with %+v", s.Status, s.Fault)
	}
	f.berth(0, "server", "delete", "later-0", "--wait")
	f.wantActiveOn("cmp1", f.createPlain("last", 8))
	if n := f.guestVCPUs("cmp1"); n != 64 || f.usedVCPUs("cmp1") != 64 {
		t.Errorf("the guests of cmp1 have %d VCPUs, the usage in Placement is %d", n, f.usedVCPUs("cmp1"))
	}
}

// wantMissingAllocations checks that a server is in ERROR because allocations are missing.
func (f *fleet) wantMissingAllocations(s compute.Server) {
	f.t.Helper()
	if s.Status != "ERROR" || !strings.Contains(s.Fault.Message, "Placement lacks allocations of servers") {
		f.t.Errorf("%s, with %+v", s.Status, s.Fault)
	}
}

// The same with devices, and with a database from before the host joined: the agent creates the providers again with
// the same UUIDs, and healing writes the devices too.
func TestPlacementRestoredFromBeforeTheHost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	conf := aliases + pciInPlacement
	f := newFleet(t, conf)
	backup := f.path("backup.db")
	f.restartPlacement(func(database string) { copyFile(t, database, backup) })
	f.startAgent("cmp1", f.host("cmp1", bus81(t), deviceSpecs+reportInPlacement))
	first := f.wantActiveOn("cmp1", f.server("first", "a-vf:3"))
	held := f.allocation(first)
	f.restartPlacement(func(database string) { copyFile(t, backup, database) })
	eventually(t, "the agent has created the providers again", func() (bool, error) {
		_, err := f.placement.placement().ProviderByName(t.Context(), "cmp1")
		return err == nil, err
	})
	f.waitForUsages("cmp1", usagesOfVFs("0/4"))
	f.wantMissingAllocations(f.server("second", "a-vf:1"))
	f.berth(0, "host", "heal", "cmp1", "--apply")
	if now := f.allocation(first); now != held || held == "" {
		t.Errorf("the allocation is %q, want %q", now, held)
	}
	f.waitForUsages("cmp1", usagesOfVFs("3/4"))
	eventually(t, "preflight succeeds", func() (bool, error) {
		report, status := f.preflight(f.file("compute", conf))
		return status == 0, fmt.Errorf("%+v", report)
	})
	f.wantActiveOn("cmp1", f.server("third", "a-vf:1"))
	f.waitForUsages("cmp1", usagesOfVFs("4/4"))
}
