package app

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// A server on one host, with the scheduler, Placement, compute and the agent: it is stopped, started, rebuilt, resized
// to more devices and reverted, resized and confirmed, and deleted. After each step the allocations in Placement and
// the agent's devices agree.
func TestServerLifecycleOnOneHost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
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
	act("rebuild", "ACTIVE", 1, 1, map[string]any{"imageRef": l.image()})
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
