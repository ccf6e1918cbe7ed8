package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/internal/novalink"
)

// slotHost is a configuration of a host with PowerVM: two GPUs, and an inventory file that allows one.
type slotHost struct {
	dir, config, inventory string
}

func newSlotHost(t *testing.T) slotHost {
	t.Helper()
	dir := t.TempDir()
	h := slotHost{dir: dir, config: filepath.Join(dir, "berth.conf"), inventory: filepath.Join(dir, "inventory.yaml")}
	system := &novalink.System{UUID: "11111111-2222-3333-4444-555555555555", Name: "sys1", Owner: true,
		Slots: []*novalink.Slot{novalink.GPU(0x1C0FFEE1, "U1-P1-C1"), novalink.GPU(0x1C0FFEE2, "U1-P1-C2")}}
	system.Slots[1].BusGrouping = true
	server := httptest.NewServer(novalink.New(novalink.Options{TokenDir: dir}, system))
	t.Cleanup(server.Close)
	writeFile(t, h.inventory, "first:\n  identification: {drc_index: 1C0FFEE1}\n")
	writeFile(t, h.config, fmt.Sprintf("[DEFAULT]\nhost = cmp1\ncompute_driver = powervm.PowerVMDriver\n[powervm]\n"+
		"url = %s\ninventory_files = %s\n", server.URL, h.inventory))
	return h
}

// berth agent check warns of a device id where the vendor id must be, refuses a FIFO as inventory file instead of
// waiting for it, and leaves no session on the server.
func TestAgentCheckOfSwappedIDsAndFIFO(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	slot := novalink.GPU(0x1C0FFEE1, "U1-P1-C1")
	slot.Vendor, slot.Device = "7601", "4660" // 1DB1, the device id of a V100
	fake := novalink.New(novalink.Options{TokenDir: dir}, &novalink.System{
		UUID: "11111111-2222-3333-4444-555555555555", Name: "sys1", Owner: true, Slots: []*novalink.Slot{slot}})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	inventory, config := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "berth.conf")
	writeFile(t, inventory, "{}\n")
	writeFile(t, config, "[DEFAULT]\nhost = cmp1\ncompute_driver = powervm.PowerVMDriver\n[powervm]\nurl = "+server.URL+
		"\ninventory_files = "+filepath.Join(dir, "*.yaml")+"\n")
	got := command(t, 0, "agent", "check", "--config-file", config)
	if !strings.Contains(got, "its vendor_id 1DB1 is not that of a known vendor") {
		t.Error(got)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "b.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := command(t, 1, "agent", "check", "--config-file", config); !strings.Contains(got, "not a regular file") {
		t.Error(got)
	}
	if n := fake.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs a command and returns its output.
func command(t *testing.T, status int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if got := run(args, &out, &out); got != status {
		t.Fatalf("berth %s: status %d, want %d\n%s", strings.Join(args, " "), got, status, &out)
	}
	return out.String()
}

// The slots of a server and of its recorded answer are listed alike, as an inventory file that the agent accepts.
func TestAgentIOSlots(t *testing.T) {
	t.Parallel()
	h := newSlotHost(t)
	recorded, listed := filepath.Join(h.dir, "system.xml"), filepath.Join(h.dir, "listed.yaml")
	writeFile(t, recorded, command(t, 0, "agent", "snapshot", "--config-file", h.config))
	live := command(t, 0, "agent", "ioslots", "--config-file", h.config)
	if again := command(t, 0, "agent", "ioslots", "--config-file", h.config, "--novalink-file", recorded); again != live {
		t.Errorf("the server:\n%s\nits recorded answer:\n%s", live, again)
	}
	for _, part := range []string{"slot 1C0FFEE1:\n", "    vendor_id: '10DE'\n", "    class: '0302'\n",
		"    drc_name: 'U1-P1-C2'\n", "bus grouping required", "offered by paragraph \"first\""} {
		if !strings.Contains(live, part) {
			t.Errorf("%q is not in\n%s", part, live)
		}
	}
	writeFile(t, listed, live)
	checked := command(t, 0, "agent", "check", "--novalink-file", recorded, "--inventory", listed)
	if !strings.Contains(checked, "2 of them offered; 0 errors") {
		t.Error(checked)
	}
}

// berth agent check reports errors of the inventory file with their places.
func TestAgentCheckOfSlots(t *testing.T) {
	t.Parallel()
	h := newSlotHost(t)
	if got := command(t, 0, "agent", "check", "--config-file", h.config); !strings.Contains(got,
		"PowerVM IOSlot cmp1 1C0FFEE1") || !strings.Contains(got, "1 of them offered") {
		t.Error(got)
	}
	writeFile(t, h.inventory, "a: {identification: {vendor_id: 10DE}}\nb: {identification: {drc_index: 1C0FFEE1}}\n")
	if got := command(t, 1, "agent", "check", "--config-file", h.config); !strings.Contains(got, "is allowed by two "+
		"paragraphs") || !strings.Contains(got, h.inventory+":2:1") {
		t.Error(got)
	}
	writeFile(t, h.inventory, "a: {identification: {vendor_id: 10DG}}\n")
	if got := command(t, 1, "agent", "check", "--config-file", h.config); !strings.Contains(got, h.inventory+":1:") {
		t.Error(got)
	}
}

// Values without quotes that other programs read differently are warnings.
func TestAgentCheckWarnsOfValuesWithoutQuotes_C15(t *testing.T) {
	t.Parallel()
	h := newSlotHost(t)
	writeFile(t, h.inventory, "a: {identification: {subsys_vendor_id: '10DE', class: 0302}}\n")
	if got := command(t, 0, "agent", "check", "--config-file", h.config); !strings.Contains(got, "write '0302'") ||
		!strings.Contains(got, "2 of them offered; 0 errors, 1 warnings") {
		t.Error(got)
	}
}

// A file that does not exist allows nothing, and a warning says so.
func TestAgentCheckWarnsOfMissingFiles_C20(t *testing.T) {
	t.Parallel()
	h := newSlotHost(t)
	must(t, os.Remove(h.inventory))
	if got := command(t, 0, "agent", "check", "--config-file", h.config); !strings.Contains(got, h.inventory+
		" does not exist, so it allows no slot") || !strings.Contains(got, "0 of them offered; 0 errors, 1 warnings") {
		t.Error(got)
	}
}

// A person who can write the inventory file decides which adapters guests get.
func TestAgentCheckWarnsOfWritableFiles_R23(t *testing.T) {
	t.Parallel()
	h := newSlotHost(t)
	if err := os.Chmod(h.inventory, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := command(t, 0, "agent", "check", "--config-file", h.config); !strings.Contains(got, "chmod go-w") ||
		!strings.Contains(got, "0 errors, 1 warnings") {
		t.Error(got)
	}
}

// berth agent explain says which paragraph allows a slot, and why the others do not match.
func TestAgentExplainSlot_G4(t *testing.T) {
	t.Parallel()
	h := newSlotHost(t)
	got := command(t, 0, "agent", "explain", "1C0FFEE2", "--config-file", h.config)
	for _, part := range []string{"slot 1C0FFEE2 (U1-P1-C2): not offered, because no paragraph allows it",
		"does not match: its drc_index is 1C0FFEE2, not 1C0FFEE1", "owner: no owner", "its bus must be grouped"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
	if got := command(t, 0, "agent", "explain", "U1-P1-C1", "--config-file", h.config); !strings.Contains(got,
		"offered by paragraph \"first\"") {
		t.Error(got)
	}
	command(t, 1, "agent", "explain", "21010010", "--config-file", h.config)
}

// Systems of all shapes are listed alike from a server and from a recording. Slots that cannot be identified, that have
// no adapter or whose adapter is in SR-IOV mode are never offered; a system that starts reports that it has no list.
func TestRecordedSystems_S8_S9_S11_S16_C9(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		slots, offered int
		parts          []string
	}{
		"old_firmware.xml":      {2, 1, []string{"reports no device id", "is a network or storage adapter"}},
		"sriov_adapters.xml":    {5, 2, []string{"SR-IOV mode", "partition 2 (vios1)"}},
		"starting.xml":          {0, 0, []string{"does not report its I/O slots"}},
		"missing_container.xml": {0, 0, []string{"does not report its I/O slots"}},
		"no_slots.xml":          {0, 0, []string{"0 errors, 1 warnings", "matches no I/O slot"}}, // known to have none
		"malformed_numbers.xml": {2, 1, []string{"is not a number of 32 bits; the slot is ignored", "is in the list twice",
			"its PCIDeviceID \"0x1DB1\" is not a decimal number", "its vendor is 0000"}},
	}
	h, inventory := newSlotHost(t), filepath.Join(t.TempDir(), "all.yaml")
	writeFile(t, inventory, "all: {identification: {drc_index: '????????'}}\n")
	for _, name := range novalink.RecordedNames() {
		recorded := filepath.Join(h.dir, name)
		writeFile(t, recorded, string(novalink.Recorded(name)))
		want, known := cases[name]
		if name == "management_console.xml" { // a system must be named, and the message lists them
			if got := command(t, 1, "agent", "check", "--novalink-file", recorded); !strings.Contains(got,
				"has 2 managed systems") || !strings.Contains(got, "--system") {
				t.Error(got)
			}
			continue
		}
		if !known {
			t.Errorf("%s has no test", name)
		}
		got := command(t, 0, "agent", "check", "--novalink-file", recorded, "--inventory", inventory)
		for _, part := range append(want.parts, fmt.Sprintf("%d I/O slots in ", want.slots),
			fmt.Sprintf("%d of them offered; 0 errors", want.offered)) {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %q in\n%s", name, part, got)
			}
		}
		if name == "old_firmware.xml" {
			continue // its owners are those of the partitions, which a recording does not have
		}
		server := httptest.NewServer(novalink.New(novalink.Options{TokenDir: h.dir,
			Recorded: novalink.Recorded(name)}))
		t.Cleanup(server.Close)
		writeFile(t, h.config, "[powervm]\nurl = "+server.URL+"\ninventory_files = "+inventory+"\n")
		file := command(t, 0, "agent", "ioslots", "--novalink-file", recorded, "--inventory", inventory)
		same := strings.Contains(file, "its drc_name is also that of slot 21010023")
		if same != (name == "sriov_adapters.xml") {
			t.Errorf("%s: slots with one name: %v\n%s", name, same, file)
		}
		if live := command(t, 0, "agent", "ioslots", "--config-file", h.config); live != file {
			t.Errorf("%s: from the server:\n%s\nfrom the recording:\n%s", name, live, file)
		}
	}
}
