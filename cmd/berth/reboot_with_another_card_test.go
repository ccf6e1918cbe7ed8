package main

import (
	"os"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// After a reboot another card is at the address of an allocated device, and a VF has no vendor file. The agent starts,
// and the server keeps its allocation. Other servers are built, but do not get the new card until the server is
// deleted.
func TestRebootWithAnotherCard(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	const fresh = `alias = {"name": "a-new", "vendor_id": "8086", "product_id": "10fb"}` + "\n"
	f, machine := newFleet(t, aliases+fresh+pciInPlacement), bus81(t)
	conf := f.host("cmp1", machine, deviceSpecs+`device_spec = {"vendor_id": "8086", "product_id": "10fb"}`+"\n"+
		reportInPlacement)
	f.startAgent("cmp1", conf)
	held := f.wantActiveOn("cmp1", f.server("held", "a-pci-dev:1"))
	at := "" // one of two devices
	eventually(t, "the host reports the allocated device", func() (bool, error) {
		at = f.devices(held)
		return at != "", nil
	})
	provider := "cmp1_" + at + " CUSTOM_PCI_8086_"
	claimed := provider + "1533:1"
	f.waitForAllocation(held, claimed)

	f.agents["cmp1"].stop(t)
	delete(f.agents, "cmp1")
	text, err := os.ReadFile(machine)
	if err != nil {
		t.Fatal(err)
	}
	const vendor = "-- devices/pci0000:80/0000:81:03.4/vendor --\n0x8086\n"
	card := "-- devices/pci0000:80/" + at + "/device --\n0x"
	changed := strings.Replace(strings.Replace(string(text), card+"1533", card+"10fb", 1), vendor, "", 1)
	if len(changed) != len(text)-len(vendor) || !strings.Contains(changed, card+"10fb") {
		t.Fatal("the files of bus81 have changed; adapt this test")
	}
	if err := os.WriteFile(machine, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	sentence := at + ": is 8086:10fb type-PCI now, but server "
	const unreadable = "0000:81:03.4: vendor is missing, so the device is unreadable"
	stdout, stderr, status := f.agentPreflight("cmp1", conf)
	if status != 0 || !strings.Contains(stdout, sentence+held.ID+" holds it as 8086:1533 type-PCI") ||
		!strings.Contains(stdout, unreadable) {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}

	f.startAgent("cmp1", conf)
	list, _, _ := output(t, f.args("host", "list", "-o", "json")...)
	for _, word := range []string{sentence + held.ID, "delete or migrate the server", unreadable} {
		if !strings.Contains(list, word) {
			t.Errorf("no %q in the host's conditions:\n%s", word, list)
		}
	}
	f.wantActiveOn("cmp1", f.server("other", "a-vf:1"))
	if late := f.server("late", "a-new:1"); late.Status != "ERROR" {
		t.Errorf("the allocated card was given to another server: %+v", late)
	}
	f.waitForAllocation(held, claimed)
	if got := f.devices(held); got != at {
		t.Errorf("the server has %q", got)
	}

	f.delete(held)
	eventually(t, "the new card is offered", func() (bool, error) {
		return f.usages("cmp1")[strings.TrimPrefix(at, "0000:")+" 10FB"] == "0/1", nil
	})
	f.waitForAllocation(f.wantActiveOn("cmp1", f.server("next", "a-new:1")), provider+"10FB:1")
}
