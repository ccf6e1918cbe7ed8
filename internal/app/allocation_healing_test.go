package app

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// When reporting is switched on, an existing server gets its allocation of devices in one reshape, and keeps its other
// allocations. Afterwards the plan is empty. With scheduling through Placement the next server gets remaining devices.
func TestHealingWithPlacement(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
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
