package pci

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/resource"
)

// Policy is a NUMA affinity policy in Nova's words (`numa_policy` of an alias).
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
	Class     resource.Class   // the resource class asked of Placement
	Required  []resource.Trait // sorted
	Forbidden []resource.Trait // sorted; an alias names them with "!" (spec 002, "PCI alias configuration")

	// LiveMigratable wants a device whose rule says the same (live_migratable); Unset takes any.
	LiveMigratable Flag
}

// Request is one device request of a server, from one `alias:count` of its flavor: Nova's InstancePCIRequest.
type Request struct {
	ID           string // request_id, a UUID: it ties the request to its groups and to the devices picked
	Alias        string // alias_name
	Count        int    // how many devices
	Requirement  Requirement
	Alternatives []Requirement // the other definitions of the alias: a device that meets one of them is as good
	Policy       NUMAPolicy
	// Providers are the providers chosen in Placement, one for each device, in the order of the groups.
	// Nil means that Placement was not asked (pci_in_placement is off) and any device that fits will do.
	Providers []resource.ProviderID
}

// GroupSuffix is the requester id of the i-th device's request group, counted from 0: "<request_id>-<index>"
// (spec 002, "Scheduling").
func (r Request) GroupSuffix(i int) string { return fmt.Sprintf("%s-%d", r.ID, i) }

// Refuse gives the sentence why a device is not for the request, or nothing when it is: one of its definitions is
// met. migratable is
// what the device's rule says of live_migratable.
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

// LiveMigratable says whether every device of the request is sure to be live-migratable: all its definitions ask for
// it by name.
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
		return fmt.Sprintf("its rule does not say live_migratable %s", w.LiveMigratable)
	}
	return fmt.Sprintf("its rule says live_migratable %s", has)
}

// Refuse gives the sentence why a device is not what is wanted, or nothing when it is. Class and traits are
// Placement's to judge; vendor, product and type are judged here, also when the alias names a class.
func (w Requirement) WhyNot(d Device) string {
	switch {
	case w.Vendor != "" && !strings.EqualFold(w.Vendor, d.Vendor):
		return fmt.Sprintf("vendor is %s, not %s", d.Vendor, w.Vendor)
	case w.Product != "" && !strings.EqualFold(w.Product, d.Product):
		return fmt.Sprintf("product is %s, not %s", d.Product, w.Product)
	case w.Type != "" && w.Type != d.Type:
		return fmt.Sprintf("it is a %s, not a %s", d.Type, w.Type)
	case w.Type == "" && d.Type != Plain && d.Type != Virtual:
		return fmt.Sprintf("it is a %s, which the alias does not ask for by device_type", d.Type)
	}
	return ""
}
