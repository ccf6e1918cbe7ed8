package record

import (
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Values that are part of the record of a server. A type whose fields are those of the value is converted as a whole,
// so a field that is added to the value does not compile until the record has it. A field with its zero value is not
// stored; an empty list or map that is not nil is stored.

type flavorRecord struct {
	ID          string            `json:"id,omitzero"`
	Name        string            `json:"name,omitzero"`
	Description string            `json:"description,omitzero"`
	VCPUs       int               `json:"vcpus,omitzero"`
	MemoryMB    int               `json:"memory_mb,omitzero"`
	DiskGB      int               `json:"disk_gb,omitzero"`
	Ephemeral   int               `json:"ephemeral_gb,omitzero"`
	Swap        int               `json:"swap_mb,omitzero"`
	RXTXFactor  float64           `json:"rxtx_factor,omitzero"`
	Public      bool              `json:"is_public,omitzero"`
	Disabled    bool              `json:"is_disabled,omitzero"`
	ExtraSpecs  map[string]string `json:"extra_specs,omitzero"`
}

type imageRecord struct {
	ID         string            `json:"id,omitzero"`
	Name       string            `json:"name,omitzero"`
	MinRAM     int               `json:"min_ram_mb,omitzero"`
	MinDisk    int               `json:"min_disk_gb,omitzero"`
	Size       int64             `json:"size_bytes,omitzero"`
	Properties map[string]string `json:"properties,omitzero"`
}

func toImage(i flavor.Image) imageRecord   { return imageRecord(i) }
func fromImage(r imageRecord) flavor.Image { return flavor.Image(r) }

// askRecord is the request of a server to Placement.
type askRecord struct {
	Groups        []groupRecord    `json:"groups,omitzero"`
	GroupPolicy   resource.Policy  `json:"group_policy,omitzero"`
	SameSubtree   [][]string       `json:"same_subtree,omitzero"`
	RootRequired  []resource.Trait `json:"root_required,omitzero"`
	RootForbidden []resource.Trait `json:"root_forbidden,omitzero"`
	Flat          bool             `json:"one_provider_per_tree,omitzero"`
	Limit         int              `json:"limit,omitzero"`
}

type groupRecord struct {
	Suffix      string                   `json:"suffix,omitzero"`
	Resources   resource.Amounts         `json:"resources,omitzero"`
	Required    [][]resource.Trait       `json:"required,omitzero"`
	Forbidden   []resource.Trait         `json:"forbidden,omitzero"`
	MemberOf    [][]resource.AggregateID `json:"member_of,omitzero"`
	NotMemberOf []resource.AggregateID   `json:"not_member_of,omitzero"`
	InTree      resource.ProviderID      `json:"in_tree,omitzero"`
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
	ID           string                `json:"request_id,omitzero"`
	Alias        string                `json:"alias_name,omitzero"`
	Count        int                   `json:"count,omitzero"`
	Requirement  requirementRecord     `json:"requirement,omitzero"`
	Alternatives []requirementRecord   `json:"alternatives,omitzero"`
	Policy       pci.NUMAPolicy        `json:"numa_policy,omitzero"`
	Providers    []resource.ProviderID `json:"providers,omitzero"`
	Port         *portNeedsRecord      `json:"port,omitzero"`
	Match        *matchRecord          `json:"match,omitzero"`
}

// matchRecord is what the devices of a request have in common.
type matchRecord struct {
	Set    int    `json:"set,omitzero"`
	Family string `json:"family,omitzero"`
	Times  int    `json:"times,omitzero"`
	Whole  bool   `json:"whole,omitzero"`
}

func toMatch(m pci.Match) matchRecord   { return matchRecord(m) }
func fromMatch(r matchRecord) pci.Match { return pci.Match(r) }

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
	Vendor         string           `json:"vendor_id,omitzero"`
	Product        string           `json:"product_id,omitzero"`
	Type           pci.Type         `json:"dev_type,omitzero"`
	Class          resource.Class   `json:"resource_class,omitzero"`
	Required       []resource.Trait `json:"required_traits,omitzero"`
	Forbidden      []resource.Trait `json:"forbidden_traits,omitzero"`
	LiveMigratable pci.Flag         `json:"live_migratable,omitzero"`
}

func toRequest(r pci.Request) requestRecord {
	return requestRecord{r.ID, r.Alias, r.Count, requirementRecord(r.Requirement),
		each(r.Alternatives, func(w pci.Requirement) requirementRecord { return requirementRecord(w) }), r.Policy,
		r.Providers, optional(r.Port, toPortNeeds), optional(r.Match, toMatch)}
}

func fromRequest(r requestRecord) pci.Request {
	return pci.Request{
		ID: r.ID, Alias: r.Alias, Count: r.Count, Requirement: pci.Requirement(r.Requirement),
		Alternatives: each(r.Alternatives, func(w requirementRecord) pci.Requirement { return pci.Requirement(w) }),
		Policy:       r.Policy, Providers: r.Providers, Port: optional(r.Port, fromPortNeeds),
		Match: optional(r.Match, fromMatch),
	}
}

// choiceRecord is a candidate of Placement that has been chosen, and its host.
type choiceRecord struct {
	Host       string                   `json:"host,omitzero"`
	Root       provider.ID              `json:"root_provider,omitzero"`
	Allocation resource.Allocation      `json:"allocation,omitzero"`
	Mappings   map[string][]provider.ID `json:"mappings,omitzero"`
	Cells      []cellChoiceRecord       `json:"numa_cells,omitzero"`
	Zone       string                   `json:"availability_zone,omitzero"`
}

func toChoice(c schedule.Choice) choiceRecord {
	return choiceRecord{c.Host, c.Root, c.Allocation, c.Mappings, each(c.Cells, toCellChoice), c.Zone}
}

func fromChoice(r choiceRecord) schedule.Choice {
	return schedule.Choice{Host: r.Host, Root: r.Root, Allocation: r.Allocation, Mappings: r.Mappings,
		Cells: each(r.Cells, fromCellChoice), Zone: r.Zone}
}

// cellChoiceRecord is what the scheduler has chosen for a NUMA cell.
type cellChoiceRecord struct {
	Node   int `json:"node,omitzero"`
	PageKB int `json:"page_size_kb,omitzero"`
}

func toCellChoice(c numa.CellChoice) cellChoiceRecord   { return cellChoiceRecord(c) }
func fromCellChoice(r cellChoiceRecord) numa.CellChoice { return numa.CellChoice(r) }

// pickedRecord is a device that an agent has given to a guest.
type pickedRecord struct {
	RequestID string      `json:"request_id,omitzero"`
	Address   string      `json:"address,omitzero"`
	Provider  provider.ID `json:"provider,omitzero"`
}

func toPicked(p schedule.Picked) pickedRecord   { return pickedRecord(p) }
func fromPicked(r pickedRecord) schedule.Picked { return schedule.Picked(r) }

// guestCellRecord is a requested NUMA cell of a guest.
type guestCellRecord struct {
	VCPUs     []int        `json:"vcpus,omitzero"`
	Dedicated []int        `json:"dedicated_vcpus,omitzero"`
	Threads   numa.Threads `json:"cpu_thread_policy,omitzero"`
	MemoryMB  int          `json:"memory_mb,omitzero"`
	PageKB    int          `json:"page_size_kb,omitzero"`
	Emulator  int          `json:"emulator_threads,omitzero"`
	// On is nil if any node may be taken.
	On *cellChoiceRecord `json:"chosen,omitzero"`
}

func toGuestCell(p numa.GuestCell) guestCellRecord {
	return guestCellRecord{p.VCPUs, p.Dedicated, p.Threads, p.MemoryMB, p.PageKB, p.Emulator,
		(*cellChoiceRecord)(p.On)}
}

func fromGuestCell(r guestCellRecord) numa.GuestCell {
	return numa.GuestCell{VCPUs: r.VCPUs, Dedicated: r.Dedicated, Threads: r.Threads, MemoryMB: r.MemoryMB,
		PageKB: r.PageKB, Emulator: r.Emulator, On: (*numa.CellChoice)(r.On)}
}

// cellPlaceRecord is where a NUMA cell of a guest is on its host.
type cellPlaceRecord struct {
	Node     int         `json:"node,omitzero"`
	CPUs     map[int]int `json:"cpu_pinning,omitzero"`
	Emulator []int       `json:"emulator_cpus,omitzero"`
	PageKB   int         `json:"page_size_kb,omitzero"`
}

func toCellPlace(p numa.Placed) cellPlaceRecord   { return cellPlaceRecord(p) }
func fromCellPlace(r cellPlaceRecord) numa.Placed { return numa.Placed(r) }
