package hosttree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Provider is a provider with the allocations on it.
type Provider struct {
	provider.Provider
	Held map[resource.ConsumerID]resource.Amounts
}

// StatusDisabled is the trait of the root providers of hosts whose compute service is disabled.
const StatusDisabled resource.Trait = "COMPUTE_STATUS_DISABLED"

// Used returns how much of a class is allocated on the provider.
func (p *Provider) Used(class resource.Class) (n int) {
	for _, amounts := range p.Held {
		n += amounts[class]
	}
	return n
}

// Shares reports whether the provider shares its inventory with the providers of its aggregates.
func (p *Provider) Shares() bool { return p.HasTrait("MISC_SHARES_VIA_AGGREGATE") }

// Device is one resource class of a provider that represents a device of a host.
type Device struct {
	Host     string           `json:"host"`          // the name of the root provider
	Address  string           `json:"address"`       // PCI address, DRC index, or the agent and its interface
	Kind     Kind             `json:"kind"`          // pci, ioslot, mdev, bandwidth or packet rate
	Name     string           `json:"provider_name"` // of a PF also if it has its VFs
	Provider provider.ID      `json:"provider"`
	Class    resource.Class   `json:"resource_class"`
	Traits   []resource.Trait `json:"traits"`
	Total    int              `json:"total"`
	Reserved int              `json:"reserved"`
	Capacity int              `json:"capacity"` // what can be allocated in all
	Used     int              `json:"used"`
	// State is available, partly allocated, allocated, reserved or over capacity.
	State   string   `json:"state"`
	Holders []Holder `json:"holders"` // by consumer
}

// Holder is a consumer of a device. Without its owner, only the id and the amount are known.
type Holder struct {
	Consumer resource.ConsumerID `json:"consumer"`
	Amount   int                 `json:"amount"`
	Owner
}

// Owner is whose a consumer is.
type Owner struct {
	Type    string `json:"consumer_type,omitempty"` // INSTANCE, MIGRATION, unknown or a type of another service
	Project string `json:"project_id,omitempty"`
	User    string `json:"user_id,omitempty"`
}

// HostRow is a host: a root provider that does not share its inventory, with the sums of its tree.
type HostRow struct {
	Host      string           `json:"host"`
	Provider  provider.ID      `json:"provider"`
	Traits    []resource.Trait `json:"traits"`
	Resources []Amount         `json:"resources"`    // of the root provider, by class
	Devices   int              `json:"device_count"` // providers of PCI devices, slots and mediated devices
	Held      int              `json:"held_count"`   // those of which something is allocated
	// Conditions name the inventories of the tree of which more is allocated than they have.
	Conditions []condition.Condition `json:"conditions"`
}

// Amount is how much of a class a provider has and how much is used.
type Amount struct {
	Class    resource.Class `json:"resource_class"`
	Used     int            `json:"used"`
	Capacity int            `json:"capacity"`
}

// Devices returns a row for each inventory of a provider that represents a device, by class; none of another provider.
// host is the name of the root of its tree.
func Devices(p *Provider, host string) (list []Device) {
	kind, address := KindOf(p, host)
	if kind == Host || kind == Other {
		return nil
	}
	for class, inventory := range p.Inventories {
		d := Device{Host: host, Address: address, Kind: kind, Name: p.Name, Provider: p.ID, Class: class,
			Traits: append([]resource.Trait{}, p.Traits...), Total: inventory.Total, Reserved: inventory.Reserved,
			Capacity: inventory.Capacity(), Holders: []Holder{}}
		for consumer, amounts := range p.Held {
			if n := amounts[class]; n > 0 {
				d.Used += n
				d.Holders = append(d.Holders, Holder{Consumer: consumer, Amount: n})
			}
		}
		d.State = d.state()
		slices.SortFunc(d.Holders, func(a, b Holder) int { return cmp.Compare(a.Consumer, b.Consumer) })
		list = append(list, d)
	}
	SortDevices(list)
	return list
}

// state returns whether more of the device can be allocated.
func (d *Device) state() string {
	switch {
	case d.Used > d.Capacity:
		return "over capacity"
	case d.Capacity == 0 && d.Reserved > 0 && d.Used == 0:
		return "reserved"
	case d.Used > 0 && d.Used < d.Capacity:
		return "partly allocated"
	case d.Used > 0:
		return "allocated"
	}
	return "available"
}

// SortDevices sorts devices by host, address and class.
func SortDevices(list []Device) {
	slices.SortFunc(list, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Class, b.Class))
	})
}

// HostOf returns the row of a host from all providers of its tree. ok is false if the tree has no root, or a root that
// shares its inventory.
func HostOf(tree []*Provider) (row HostRow, ok bool) {
	at := slices.IndexFunc(tree, func(p *Provider) bool { return p.Parent == "" })
	if at < 0 || tree[at].Shares() {
		return HostRow{}, false
	}
	root := tree[at]
	row = HostRow{Host: root.Name, Provider: root.ID, Traits: append([]resource.Trait{}, root.Traits...),
		Resources: root.amounts(), Conditions: []condition.Condition{}}
	tree = slices.SortedFunc(slices.Values(tree), func(a, b *Provider) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range tree {
		for _, a := range p.amounts() {
			if a.Used > a.Capacity {
				row.Conditions = append(row.Conditions, condition.New(condition.OverCapacity, p.Name, fmt.Sprintf(
					"%s: %d of %d %s are allocated", p.Name, a.Used, a.Capacity, a.Class)))
			}
		}
		if kind, _ := KindOf(p, root.Name); kind.IsDevice() {
			row.Devices++
			if len(p.Held) > 0 {
				row.Held++
			}
		}
	}
	return row, true
}

// amounts returns the inventories of a provider with their use, by class.
func (p *Provider) amounts() []Amount {
	list := []Amount{}
	for class, inventory := range p.Inventories {
		list = append(list, Amount{class, p.Used(class), inventory.Capacity()})
	}
	slices.SortFunc(list, func(a, b Amount) int { return cmp.Compare(a.Class, b.Class) })
	return list
}
