package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Class is the resource class of every device in the tour. Alias is the alias through which its flavor requests one.
const (
	Class resource.Class = "CUSTOM_PASSTHROUGH"
	Alias                = "any-device"
)

// Config returns the configuration of the tour: it offers each device that is not a bridge, with one resource class and
// the vendor as a trait, and a virtual bridge with a guaranteed bandwidth. Of a PF with VFs it offers the VFs, because
// a PF and its VFs cannot both be offered.
func Config(hostname string, devices []pci.Device) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[DEFAULT]\nhost = %s\ncompute_driver = fake.FakeDriver\n\n"+
		"[api]\nauth_strategy = noauth2\n\n[pci]\nreport_in_placement = true\n",
		hostname)
	for _, d := range Offered(devices) {
		fmt.Fprintf(&b, "device_spec = %s\n", oneLine(map[string]string{
			"address": d.Address.String(), "product_id": d.Product, "resource_class": string(Class), "traits": vendorTrait(d)}))
	}
	fmt.Fprintf(&b, "alias = %s\n\n[filter_scheduler]\npci_in_placement = true\n\n", oneLine(map[string]string{
		"name": Alias, "resource_class": string(Class)}))
	fmt.Fprintf(&b, "[ovs]\nbridge_mappings = %[1]s:%[2]s\nresource_provider_bandwidths = %[2]s:%[3]d:%[3]d\n"+
		"resource_provider_default_hypervisor = %[4]s\n", physicalNetwork, bridge, bridgeKbps, hostname)
	return b.String()
}

func vendorTrait(d pci.Device) string { return "CUSTOM_VENDOR_" + strings.ToUpper(d.Vendor) }

// oneLine encodes a map of strings as JSON, which cannot fail.
func oneLine(m map[string]string) string {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Offered returns the devices that the tour offers.
func Offered(devices []pci.Device) []pci.Device {
	return slices.DeleteFunc(slices.Clone(devices), func(d pci.Device) bool {
		return d.IsBridge() || d.Type == pci.Physical && d.NumVFs > 0
	})
}
