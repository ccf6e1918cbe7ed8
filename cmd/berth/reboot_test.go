package main

import (
	"os"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// After a reboot the card at the address of a held device is another one, and a VF has lost its vendor file. The agent
// starts all the same; the server keeps what it claimed, in Placement too; others are served, and are not given the new
// card until the server is deleted.
func TestRebootWithAnotherCard(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	const fresh = `alias = {"name": "a-new", "vendor_id": "8086", "product_id": "10fb"}` + "\n"
	f, machine := newFleet(t, aliases+fresh+asking), bus81(t)
	conf := f.host("cmp1", machine, spec+`device_spec = {"vendor_id": "8086", "product_id": "10fb"}`+"\n"+reporting)
	f.startAgent("cmp1", conf)
	held := f.on("cmp1", f.server("held", "a-pci-dev:1"))
	at := "" // one of two
	eventually(t, "the host reports what is held", func() (bool, error) {
		at = f.devices(held)
		return at != "", nil
	})
	provider := "cmp1_" + at + " CUSTOM_PCI_8086_"
	claimed := provider + "1533:1"
	f.holds(held, claimed)

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
		t.Fatal("the machine is not as it was expected")
	}
	if err := os.WriteFile(machine, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	says := at + ": is 8086:10fb type-PCI now, but server "
	const unreadable = "0000:81:03.4: vendor is missing, so the device is unreadable"
	stdout, stderr, status := f.agentPreflight("cmp1", conf)
	if status != 0 || !strings.Contains(stdout, says+held.ID+" holds it as 8086:1533 type-PCI") ||
		!strings.Contains(stdout, unreadable) {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}

	f.startAgent("cmp1", conf)
	list, _, _ := output(t, f.args("host", "list", "-o", "json")...)
	for _, word := range []string{says + held.ID, "delete or migrate the server", unreadable} {
		if !strings.Contains(list, word) {
			t.Errorf("the host's conditions do not say %q:\n%s", word, list)
		}
	}
	f.on("cmp1", f.server("other", "a-vf:1"))
	if late := f.server("late", "a-new:1"); late.Status != "ERROR" {
		t.Errorf("the card that a server holds was given to another one: %+v", late)
	}
	f.holds(held, claimed)
	if got := f.devices(held); got != at {
		t.Errorf("it has %q", got)
	}

	f.delete(held)
	eventually(t, "the new card is offered", func() (bool, error) {
		return f.usages("cmp1")[strings.TrimPrefix(at, "0000:")+" 10FB"] == "0/1", nil
	})
	f.holds(f.on("cmp1", f.server("next", "a-new:1")), provider+"10FB:1")
}
