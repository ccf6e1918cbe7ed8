package store

import (
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Values that are part of the records of servers and hosts. A type whose fields are those of the value is converted as
// a whole, so a field that is added to the value does not compile until the record has it.
//
// The tag `json` is the name in the current version, `v1` the name in version 1. A field with its zero value is not
// stored; an empty list or map that is not nil is stored.

type flavorRecord struct {
	ID          string            `json:"id,omitzero" v1:"ID"`
	Name        string            `json:"name,omitzero" v1:"Name"`
	Description string            `json:"description,omitzero" v1:"Description"`
	VCPUs       int               `json:"vcpus,omitzero" v1:"VCPUs"`
	MemoryMB    int               `json:"memory_mb,omitzero" v1:"MemoryMB"`
	DiskGB      int               `json:"disk_gb,omitzero" v1:"DiskGB"`
	Ephemeral   int               `json:"ephemeral_gb,omitzero" v1:"Ephemeral"`
	Swap        int               `json:"swap_mb,omitzero" v1:"Swap"`
	RXTXFactor  float64           `json:"rxtx_factor,omitzero" v1:"RXTXFactor"`
	Public      bool              `json:"is_public,omitzero" v1:"Public"`
	Disabled    bool              `json:"is_disabled,omitzero" v1:"Disabled"`
	ExtraSpecs  map[string]string `json:"extra_specs,omitzero" v1:"ExtraSpecs"`
}

type imageRecord struct {
	ID         string            `json:"id,omitzero" v1:"ID"`
	Name       string            `json:"name,omitzero" v1:"Name"`
	MinRAM     int               `json:"min_ram_mb,omitzero" v1:"MinRAM"`
	MinDisk    int               `json:"min_disk_gb,omitzero" v1:"MinDisk"`
	Size       int64             `json:"size_bytes,omitzero" v1:"Size"`
	Properties map[string]string `json:"properties,omitzero" v1:"Properties"`
}

func toImage(i flavor.Image) imageRecord   { return imageRecord(i) }
func fromImage(r imageRecord) flavor.Image { return flavor.Image(r) }

// askRecord is the request of a server to Placement.
type askRecord struct {
	Groups        []groupRecord    `json:"groups,omitzero" v1:"Groups"`
	GroupPolicy   resource.Policy  `json:"group_policy,omitzero" v1:"GroupPolicy"`
	SameSubtree   [][]string       `json:"same_subtree,omitzero" v1:"SameSubtree"`
	RootRequired  []resource.Trait `json:"root_required,omitzero" v1:"RootRequired"`
	RootForbidden []resource.Trait `json:"root_forbidden,omitzero" v1:"RootForbidden"`
	Flat          bool             `json:"one_provider_per_tree,omitzero" v1:"Flat"`
	Limit         int              `json:"limit,omitzero" v1:"Limit"`
}

type groupRecord struct {
	Suffix      string                   `json:"suffix,omitzero" v1:"Suffix"`
	Resources   resource.Amounts         `json:"resources,omitzero" v1:"Resources"`
	Required    [][]resource.Trait       `json:"required,omitzero" v1:"Required"`
	Forbidden   []resource.Trait         `json:"forbidden,omitzero" v1:"Forbidden"`
	MemberOf    [][]resource.AggregateID `json:"member_of,omitzero" v1:"MemberOf"`
	NotMemberOf []resource.AggregateID   `json:"not_member_of,omitzero" v1:"NotMemberOf"`
	InTree      resource.ProviderID      `json:"in_tree,omitzero" v1:"InTree"`
}

func toAsk(a resource.Ask) askRecord {
	return askRecord{each(a.Groups, func(g resource.Group) groupRecord { return groupRecord(g) }),
		a.GroupPolicy, a.SameSubtree, a.RootRequired, a.RootForbidden, a.Flat, a.Limit}
}

func fromAsk(r askRecord) resource.Ask {
	return resource.Ask{
		Groups:      each(r.Groups, func(g groupRecord) resource.Group { return resource.Group(g) }),
		GroupPolicy: r.GroupPolicy, SameSubtree: r.SameSubtree, RootRequired: r.RootRequired,
		RootForbidden: r.RootForbidden, Flat: r.Flat, Limit: r.Limit,
	}
}

// requestRecord is one request for PCI devices.
type requestRecord struct {
	ID           string                `json:"request_id,omitzero" v1:"ID"`
	Alias        string                `json:"alias_name,omitzero" v1:"Alias"`
	Count        int                   `json:"count,omitzero" v1:"Count"`
	Requirement  requirementRecord     `json:"requirement,omitzero" v1:"Want"`
	Alternatives []requirementRecord   `json:"alternatives,omitzero" v1:"Or"`
	Policy       pci.NUMAPolicy        `json:"numa_policy,omitzero" v1:"Policy"`
	Providers    []resource.ProviderID `json:"providers,omitzero" v1:"Providers"`
	Port         *portNeedsRecord      `json:"port,omitzero"` // since version 4
}

// portNeedsRecord is what the port of a request needs of its device.
type portNeedsRecord struct {
	ID               string   `json:"port_id,omitzero"`
	PhysicalNetworks []string `json:"physical_networks,omitzero"`
	RemoteManaged    bool     `json:"remote_managed,omitzero"`
	Trusted          bool     `json:"trusted,omitzero"`
}

func toPortNeeds(p pci.PortNeeds) portNeedsRecord   { return portNeedsRecord(p) }
func fromPortNeeds(r portNeedsRecord) pci.PortNeeds { return pci.PortNeeds(r) }

type requirementRecord struct {
	Vendor         string           `json:"vendor_id,omitzero" v1:"Vendor"`
	Product        string           `json:"product_id,omitzero" v1:"Product"`
	Type           pci.Type         `json:"dev_type,omitzero" v1:"Type"`
	Class          resource.Class   `json:"resource_class,omitzero" v1:"Class"`
	Required       []resource.Trait `json:"required_traits,omitzero" v1:"Required"`
	Forbidden      []resource.Trait `json:"forbidden_traits,omitzero" v1:"Forbidden"`
	LiveMigratable pci.Flag         `json:"live_migratable,omitzero" v1:"LiveMigratable"`
}

func toRequest(r pci.Request) requestRecord {
	return requestRecord{r.ID, r.Alias, r.Count, requirementRecord(r.Requirement),
		each(r.Alternatives, func(w pci.Requirement) requirementRecord { return requirementRecord(w) }), r.Policy,
		r.Providers, optional(r.Port, toPortNeeds)}
}

func fromRequest(r requestRecord) pci.Request {
	return pci.Request{
		ID: r.ID, Alias: r.Alias, Count: r.Count, Requirement: pci.Requirement(r.Requirement),
		Alternatives: each(r.Alternatives, func(w requirementRecord) pci.Requirement { return pci.Requirement(w) }),
		Policy:       r.Policy, Providers: r.Providers, Port: optional(r.Port, fromPortNeeds),
	}
}

// choiceRecord is a candidate of Placement that has been chosen, and its host.
type choiceRecord struct {
	Host       string                   `json:"host,omitzero" v1:"Host"`
	Root       provider.ID              `json:"root_provider,omitzero" v1:"Root"`
	Allocation resource.Allocation      `json:"allocation,omitzero" v1:"Allocation"`
	Mappings   map[string][]provider.ID `json:"mappings,omitzero" v1:"Mappings"`
}

func toChoice(c schedule.Choice) choiceRecord   { return choiceRecord(c) }
func fromChoice(r choiceRecord) schedule.Choice { return schedule.Choice(r) }

// pickedRecord is a device that an agent has given to a guest.
type pickedRecord struct {
	RequestID string      `json:"request_id,omitzero" v1:"RequestID"`
	Address   string      `json:"address,omitzero" v1:"Address"`
	Provider  provider.ID `json:"provider,omitzero" v1:"Provider"`
}

func toPicked(p schedule.Picked) pickedRecord   { return pickedRecord(p) }
func fromPicked(r pickedRecord) schedule.Picked { return schedule.Picked(r) }

// guestCellRecord is a requested NUMA cell of a guest.
type guestCellRecord struct {
	VCPUs     []int        `json:"vcpus,omitzero" v1:"VCPUs"`
	Dedicated []int        `json:"dedicated_vcpus,omitzero" v1:"Dedicated"`
	Threads   numa.Threads `json:"cpu_thread_policy,omitzero" v1:"Threads"`
	MemoryMB  int          `json:"memory_mb,omitzero" v1:"MemoryMB"`
	PageKB    int          `json:"page_size_kb,omitzero" v1:"PageKB"`
	Emulator  int          `json:"emulator_threads,omitzero" v1:"Emulator"`
}

func toGuestCell(p numa.GuestCell) guestCellRecord   { return guestCellRecord(p) }
func fromGuestCell(r guestCellRecord) numa.GuestCell { return numa.GuestCell(r) }

// cellPlaceRecord is where a NUMA cell of a guest is on its host.
type cellPlaceRecord struct {
	Node     int         `json:"node,omitzero" v1:"Node"`
	CPUs     map[int]int `json:"cpu_pinning,omitzero" v1:"CPUs"`
	Emulator []int       `json:"emulator_cpus,omitzero" v1:"Emulator"`
	PageKB   int         `json:"page_size_kb,omitzero" v1:"PageKB"`
}

func toCellPlace(p numa.Placed) cellPlaceRecord   { return cellPlaceRecord(p) }
func fromCellPlace(r cellPlaceRecord) numa.Placed { return numa.Placed(r) }

// address stores a PCI address as text, such as 0000:3b:00.1.
type address pci.Address

// MarshalText prints the address.
func (a address) MarshalText() ([]byte, error) { return []byte(pci.Address(a).String()), nil }

// UnmarshalText parses an address.
func (a *address) UnmarshalText(text []byte) error {
	parsed, err := pci.ParseAddress(string(text))
	*a = address(parsed)
	return err
}

// each converts the elements of a list. A nil list stays nil and an empty one empty.
func each[A, B any](list []A, convert func(A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, len(list))
	for i, one := range list {
		out[i] = convert(one)
	}
	return out
}

// optional converts what a pointer points to. A nil pointer stays nil.
func optional[A, B any](from *A, convert func(A) B) *B {
	if from == nil {
		return nil
	}
	to := convert(*from)
	return &to
}
