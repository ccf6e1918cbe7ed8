package fake

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

// TestGuestRequests asks for the console and the diagnostics of a guest, and interrupts it, in each state.
func TestGuestRequests(t *testing.T) {
	h, err := New(t.TempDir(), hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	g := hypervisor.Guest{ID: "a", Name: "web", VCPUs: 2, MemoryMB: 64,
		Interfaces: []hypervisor.Interface{{Port: "p", MAC: "fa:16:3e:00:00:01", VIF: "bridge", VNIC: "normal"}}}
	for _, id := range []string{"a", "missing", "../a"} {
		if _, err := h.Console(t.Context(), id, 1000); err == nil {
			t.Errorf("a missing guest %q has a console", id)
		}
	}
	if err := h.Build(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	all, err := h.Console(t.Context(), "a", 10000)
	if err != nil || strings.Count(string(all), "\n") < 12 || !strings.Contains(string(all), "name: web") {
		t.Errorf("the console is %q, %v", all, err)
	}
	if end, err := h.Console(t.Context(), "a", 5); err != nil || string(end) != string(all[len(all)-5:]) {
		t.Errorf("the end of the console is %q, %v", end, err)
	}
	want := hypervisor.Diagnostics{Driver: "libvirt", Hypervisor: "fake", State: "running", MemoryKB: 65536,
		CPUs: []hypervisor.CPUStats{{ID: 0}, {ID: 1}}, Disks: []hypervisor.DiskStats{{Name: "vda"}},
		NICs: []hypervisor.NICStats{{Name: "vnet0", MAC: "fa:16:3e:00:00:01"}}}
	if got, err := h.Diagnostics(t.Context(), "a"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the diagnostics are %+v, %v\nwant %+v", got, err, want)
	}
	g.Paused = true
	if err := h.Build(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Diagnostics(t.Context(), "a"); err != nil || got.State != "paused" {
		t.Errorf("the diagnostics of a paused guest are %+v, %v", got, err)
	}
	g.Paused, g.Stopped = false, true
	if err := h.Build(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Diagnostics(t.Context(), "a"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a stopped guest has diagnostics: %v", err)
	}
}
