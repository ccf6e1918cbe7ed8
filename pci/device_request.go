package pci

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/resource"
)

// NUMAPolicy is a NUMA affinity policy with the values of Nova's `numa_policy`.
type NUMAPolicy string

// The policies that an alias may name. Legacy is the default.
const (
	Required  NUMAPolicy = "required"
	Legacy    NUMAPolicy = "legacy"
	Preferred NUMAPolicy = "preferred"
	Socket    NUMAPolicy = "socket"
)

// Requirement describes a device that serves a request. An empty field accepts any value.
type Requirement struct {
	Vendor    string // four lower-case hex digits
	Product   string
	Type      Type
	Class     resource.Class   // the resource class that is requested from Placement
	Required  []resource.Trait // sorted
	Forbidden []resource.Trait // sorted; an alias writes them with "!"

	// LiveMigratable requires a device whose rule has the same live_migratable; Unset accepts any device.
	LiveMigratable Flag
}

// Request is one device request of a server, made from one `alias:count` of its flavor. Nova calls it
// InstancePCIRequest.
type Request struct {
	ID           string // request_id, a UUID: it links the request to its groups and its devices
	Alias        string // alias_name
	Count        int    // how many devices
	Requirement  Requirement
	Alternatives []Requirement // the other definitions of the alias; a device that meets one of them also fits
	Policy       NUMAPolicy
	// Providers are the providers chosen by Placement, one for each device, in the order of the groups. Nil means that
	// Placement was not queried (pci_in_placement is off) and that every matching device fits.
	Providers []resource.ProviderID
	Port      *PortNeeds // nil: the request is of an alias
	Match     *Match     // the sets of devices that belong together; nil: none
}

// PortNeeds is what a network port needs of its device, in addition to the Requirement of its request.
type PortNeeds struct {
	ID string // of the port
	// PhysicalNetworks has one element for each segment of the port's network: its physical network, or an empty text for
	// a segment without one. The device's rule must name one of them.
	PhysicalNetworks []string
	RemoteManaged    bool // the device's rule has remote_managed
	Trusted          bool // the device's rule has trusted
}

// Name returns the alias or the port of the request, for messages.
func (r Request) Name() string {
	if r.Port != nil {
		return "port " + r.Port.ID
	}
	return "alias " + r.Alias
}

// GroupSuffix returns the requester id of the request group of the i-th device, counted from 0:
// "<request_id>-<index>".
func (r Request) GroupSuffix(i int) string { return fmt.Sprintf("%s-%d", r.ID, i) }

// WhyNot returns the reason why a device does not fit the request, or "" if one of the definitions of the alias is
// met. migratable is live_migratable of the device's rule. If no definition is met, the reason is that of the first
// one.
func (r Request) WhyNot(d Device, migratable Flag) string {
	first := ""
	for i, w := range append([]Requirement{r.Requirement}, r.Alternatives...) {
		why := w.WhyNot(d)
		if why == "" {
			why = w.whyNotMigratable(migratable)
		}
		if why == "" {
			return ""
		}
		if i == 0 {
			first = why
		}
	}
	return first
}

// LiveMigratable reports whether every device that fits the request is live-migratable: all definitions of the alias
// require it.
func (r Request) LiveMigratable() bool {
	for _, w := range append([]Requirement{r.Requirement}, r.Alternatives...) {
		if w.LiveMigratable != Yes {
			return false
		}
	}
	return true
}

func (w Requirement) whyNotMigratable(has Flag) string {
	switch {
	case w.LiveMigratable == Unset || w.LiveMigratable == has:
		return ""
	case has == Unset:
		return fmt.Sprintf("its rule does not have live_migratable %s", w.LiveMigratable)
	}
	return fmt.Sprintf("its rule has live_migratable %s", has)
}

// WhyNot returns the reason why a device does not meet the requirement, or "". It compares vendor, product and type,
// also if the alias names a class. Placement compares class and traits.
func (w Requirement) WhyNot(d Device) string {
	switch {
	case w.Vendor != "" && !strings.EqualFold(w.Vendor, d.Vendor):
		return fmt.Sprintf("vendor is %s, not %s", d.Vendor, w.Vendor)
	case w.Product != "" && !strings.EqualFold(w.Product, d.Product):
		return fmt.Sprintf("product is %s, not %s", d.Product, w.Product)
	case w.Type != "" && w.Type != d.Type:
		return fmt.Sprintf("it is a %s, not a %s", d.Type, w.Type)
	case w.Type == "" && d.Type != Plain && d.Type != Virtual:
		return fmt.Sprintf("it is a %s, which the alias does not request by device_type", d.Type)
	}
	return ""
}
