package app

import (
	"maps"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// taken is what a server has of each provider below the root: in Placement, and by the devices that the agent says it
// gave it.
func (l *lab) taken(server string) (placement, agent map[provider.ID]int) {
	l.t.Helper()
	placement, agent = map[provider.ID]int{}, map[provider.ID]int{}
	for id, amounts := range l.allocation(server) {
		for class, n := range amounts {
			if resource.IsCustom(string(class)) {
				placement[id] += n
			}
		}
	}
	devices, err := l.cloud.HostClient().Devices(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, d := range devices {
		if d.Holder == server {
			agent[provider.ID(d.Provider)]++
		}
	}
	return placement, agent
}

// has wants a server to have this of each provider, in Placement and, as soon as the agent's report says so, by its
// devices.
func (l *lab) has(server string, want map[provider.ID]int) {
	l.t.Helper()
	if placement, _ := l.taken(server); !maps.Equal(placement, want) {
		l.t.Errorf("in Placement %s has %v, want %v", server, placement, want)
	}
	l.until("the agent has given these devices", func() bool {
		_, agent := l.taken(server)
		return maps.Equal(agent, want)
	})
}

// quiet wants that the agent has nothing to mend: what the scheduler claimed is what the guests have.
func (l *lab) quiet() {
	l.t.Helper()
	l.until("nothing to do", func() bool {
		_, empty, err := l.cloud.Plan(l.t.Context())
		return err == nil && empty && l.conditions() == ""
	})
}

// fails wants that no server can be made of the alias, that nothing is held for it, and that nothing had to be mended.
func (l *lab) fails(row, alias string, words ...string) {
	l.t.Helper()
	s := l.boot(row, "ERROR", map[string]string{"pci_passthrough:alias": alias})
	for _, word := range append(words, "No valid host") {
		if s.Fault == nil || !strings.Contains(s.Fault.Message, word) {
			l.t.Errorf("%s: %+v does not say %q", row, s.Fault, word)
		}
	}
	if placement, agent := l.taken(s.ID); len(placement)+len(agent)+len(l.allocation(s.ID)) > 0 {
		l.t.Errorf("%s: it holds %v, %v", row, placement, agent)
	}
	l.quiet()
}

// R1 and R3 of pci.md 7.3 on the whole cloud: an alias that asks for another class than the device's, for a trait more,
// or for the class of one device and the product of another, gets nothing.
func TestR1R3WhatNoDeviceIs(t *testing.T) {
	testenv.Long(t)
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
	l.fails("R1a", "ids:1", strings.ToUpper("CUSTOM_PCI_"+strings.ReplaceAll(product, ":", "_")))
	l.fails("R1b", "class:1", "PGPU")
	l.fails("R1c", "trait:1", "CUSTOM_BIG")
	s := l.boot("R1", "ACTIVE", map[string]string{"pci_passthrough:alias": "right:1"})
	l.delete(s.ID)
	l.down()

	l.up(conf + `device_spec = {"address":"` + address + `","resource_class":"my_dev","traits":"a_pci"}
device_spec = {` + ids(vf) + `,"address":{"bus":"11","function":"0"},"resource_class":"my_dev","traits":"a_pf"}
`)
	defer l.down()
	l.fails("R3", "both:1", "on the chosen provider")
	s = l.boot("R3-pf", "ACTIVE", map[string]string{"pci_passthrough:alias": "pf:1"})
	l.has(s.ID, map[provider.ID]int{l.provider("cmp1_0000:11:00.0").ID: 1})
}

// R4 and R5 of pci.md 7.3 on the whole cloud: what is reserved decides how devices of one request are split over two
// PFs, and the agent gives those that were claimed.
func TestR4R5DevicesOfSeveralProviders(t *testing.T) {
	testenv.Long(t)
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
	one := boot("R4-one", "vf:1", 1, 0)
	reserve(name1, 1)
	two := boot("R4-two", "vf:2", 1, 1)
	l.delete(one.ID)
	l.delete(two.ID)
	reserve(name0, 1)
	reserve(name1, 0)
	boot("R5", "vf:3", 1, 2)
}
