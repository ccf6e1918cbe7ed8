package device

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// The offers of the tests: a PF of two VFs, all three offered, and a plain device.
var (
	pfAt = pci.Address{Bus: 0x81}
	pf   = offer(pci.Device{Address: pfAt, Vendor: "8086", Product: "1528", Type: pci.Physical}, "card")
	vf1  = offer(pci.Device{Address: pci.Address{Bus: 0x81, Func: 1}, Vendor: "8086", Product: "1515",
		Type: pci.Virtual, Parent: &pfAt}, "card")
	vf2 = offer(pci.Device{Address: pci.Address{Bus: 0x81, Func: 2}, Vendor: "8086", Product: "1515",
		Type: pci.Virtual, Parent: &pfAt}, "card")
	plain   = offer(pci.Device{Address: pci.Address{Bus: 0x82}, Vendor: "10de", Product: "20b0", Type: pci.Plain}, "gpu")
	changed = offer(pci.Device{Address: pci.Address{Bus: 0x82}, Vendor: "10de", Product: "20b1", Type: pci.Plain}, "gpu")
)

func offer(d pci.Device, p resource.ProviderID) Offer {
	return Offer{Name: "cmp1_" + string(p),
		Offered: pci.Offered{Device: d, Provider: p, ResourceClass: pci.ClassFor(d.Vendor, d.Product)}}
}

func request(o Offer, count int, providers ...resource.ProviderID) pci.Request {
	return pci.Request{ID: fmt.Sprint(o.Device.Product, count, providers), Alias: "a", Count: count, Providers: providers,
		Requirement: pci.Requirement{Vendor: o.Device.Vendor, Product: o.Device.Product, Type: o.Device.Type,
			Class: o.ResourceClass}}
}

// card returns count VFs of a PF that is not offered.
func card(bus uint8, count int, p resource.ProviderID) []Offer {
	parent := pci.Address{Bus: bus}
	var list []Offer
	for i := range count {
		list = append(list, offer(pci.Device{Address: pci.Address{Bus: bus, Func: uint8(i + 1)}, Vendor: "8086",
			Product: "1515", Type: pci.Virtual, Parent: &parent}, p))
	}
	return list
}

func addresses(claims []Claim) string {
	var list []string
	for _, c := range claims {
		list = append(list, c.Device.Address.String()[5:])
	}
	return strings.Join(list, " ")
}

// hold claims devices; it fails the test if the claim is refused.
func (s Set) hold(t *testing.T, holder resource.ConsumerID, r pci.Request) Set {
	t.Helper()
	n, _, refusal := s.Claim(holder, r)
	if refusal != "" {
		t.Fatal(refusal)
	}
	return n
}

func vfs(id string, providers ...resource.ProviderID) pci.Request {
	return pci.Request{ID: id, Alias: "vf", Count: len(providers), Providers: providers,
		Requirement: pci.Requirement{Vendor: "8086", Product: "1515", Type: pci.Virtual}}
}

func (s Set) stateOf(t *testing.T, o Offer) pci.State {
	t.Helper()
	e, found := s.At(PCI(o.Device.Address))
	if !found {
		return ""
	}
	return e.State
}

// print returns the whole content of a set.
func (s Set) print() string {
	var b strings.Builder
	for _, address := range s.ids() {
		e := s.entries[address]
		fmt.Fprintf(&b, "%s %s %s holder=%s request=%s gone=%v", e.Device, e.ResourceClass, s.state(address), e.Holder,
			e.RequestID, e.Gone)
		if l := e.latest; l != nil {
			fmt.Fprintf(&b, " fresh=%s %s %v %s %s %v %v %v %v %v", l.Device, l.ResourceClass, l.Traits, l.Provider, l.Name,
				l.ForPorts, l.Spent, l.Managed, l.Networked, l.LiveMigratable)
		}
		b.WriteString("\n")
	}
	return b.String()
}
