package app

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
)

// fails checks that no server can be created with the alias, that nothing is allocated for it, and that the agent has
// nothing to change.
func (l *lab) fails(name, alias string, words ...string) {
	l.t.Helper()
	s := l.boot(name, "ERROR", map[string]string{"pci_passthrough:alias": alias})
	for _, word := range append(words, "No valid host") {
		if s.Fault == nil || !strings.Contains(s.Fault.Message, word) {
			l.t.Errorf("%s: %+v does not say %q", name, s.Fault, word)
		}
	}
	if placement, agent := l.taken(s.ID); len(placement)+len(agent)+len(l.allocation(s.ID)) > 0 {
		l.t.Errorf("%s: it holds %v, %v", name, placement, agent)
	}
	l.quiet()
}

// On the whole cloud, an alias gets no device if it requests another class than the device's, a further trait, or the
// class of one device and the product of another.
func TestAliasesThatMatchNoDevice(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newLab(t)
	vf, plain := sampleProducts(t)
	product, address, _ := strings.Cut(plain, " ")
	ids := func(of string) string {
		v, p, _ := strings.Cut(of, ":")
		return `"vendor_id":"` + v + `","product_id":"` + p + `"`
	}
	conf := `
[pci]
report_in_placement = true
alias = {"name":"ids",` + ids(product) + `}
alias = {"name":"class","resource_class":"PGPU"}
alias = {"name":"trait","resource_class":"GPU","traits":"purple,big"}
alias = {"name":"right","resource_class":"GPU","traits":"purple,round"}
alias = {"name":"both","resource_class":"my_dev",` + ids(product) + `,"traits":"a_pf"}
alias = {"name":"pf","resource_class":"my_dev","traits":"a_pf","device_type":"type-PF"}
[filter_scheduler]
pci_in_placement = true
[pci]
`
	l.up(
		conf + `device_spec = {"address":"` + address +
			`","resource_class":"gpu","traits":"HW_GPU_API_VULKAN,purple,round"}` + "\n")
	l.fails("ids", "ids:1", strings.ToUpper("CUSTOM_PCI_"+strings.ReplaceAll(product, ":", "_")))
	l.fails("class", "class:1", "PGPU")
	l.fails("trait", "trait:1", "CUSTOM_BIG")
	s := l.boot("right", "ACTIVE", map[string]string{"pci_passthrough:alias": "right:1"})
	l.delete(s.ID)
	l.down()

	l.up(conf + `device_spec = {"address":"` + address + `","resource_class":"my_dev","traits":"a_pci"}
device_spec = {` + ids(vf) + `,"address":{"bus":"11","function":"0"},"resource_class":"my_dev","traits":"a_pf"}
`)
	defer l.down()
	l.fails("both", "both:1", "it has no trait CUSTOM_A_PF")
	s = l.boot("pf", "ACTIVE", map[string]string{"pci_passthrough:alias": "pf:1"})
	l.has(s.ID, map[provider.ID]int{l.provider("cmp1_0000:11:00.0").ID: 1})
}

// On the whole cloud, reserved inventory decides how the devices of one request are split over two PFs, and the agent
// assigns devices of the claimed providers.
func TestDevicesOfSeveralProviders(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newLab(t)
	vf, _ := sampleProducts(t)
	vendor, product, _ := strings.Cut(vf, ":")
	l.up(`
[pci]
report_in_placement = true
device_spec = {"vendor_id":"` + vendor + `","product_id":"` + product +
		`","address":{"domain":".*","bus":".*","slot":".*","function":"[12]"}}
alias = {"name":"vf","vendor_id":"` + vendor + `","product_id":"` + product + `","device_type":"type-VF"}
[filter_scheduler]
pci_in_placement = true
`)
	defer l.down()
	const name0, name1 = "cmp1_0000:11:00.0", "cmp1_0000:21:00.0"
	reserve := func(name string, n int) {
		t.Helper()
		l.until("it is reserved", func() bool {
			p := l.provider(name)
			for class, inv := range p.Inventories {
				inv.Reserved = n
				p.Inventories[class] = inv
			}
			_, err := l.cloud.PlacementClient().PutInventories(t.Context(), p.ID, p.Generation, p.Inventories)
			return err == nil && len(p.Inventories) == 1
		})
	}
	boot := func(name, alias string, want ...int) compute.Server {
		t.Helper()
		s := l.boot(name, "ACTIVE", map[string]string{"pci_passthrough:alias": alias})
		split := map[provider.ID]int{}
		for i, n := range want {
			if n > 0 {
				split[l.provider([]string{name0, name1}[i]).ID] = n
			}
		}
		l.has(s.ID, split)
		l.quiet()
		return s
	}
	reserve(name1, 2)
	one := boot("one", "vf:1", 1, 0)
	reserve(name1, 1)
	two := boot("two", "vf:2", 1, 1)
	l.delete(one.ID)
	l.delete(two.ID)
	reserve(name0, 1)
	reserve(name1, 0)
	boot("three", "vf:3", 1, 2)
}
