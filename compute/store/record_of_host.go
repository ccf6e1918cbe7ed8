package store

import (
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// hostRecord is the last report of a host, the column `report` of compute_hosts. When it came is a column of its own;
// Guests and Load of a host follow from the servers and are not stored.
type hostRecord struct {
	Version     int              `json:"version"`
	Name        string           `json:"name,omitzero" v1:"Name"`
	Instance    string           `json:"agent_instance,omitzero" v1:"Instance"`
	Start       string           `json:"agent_start,omitzero" v1:"Start"`
	LockID      string           `json:"agent_boot_id,omitzero" v1:"Place"`
	Guests      []presentRecord  `json:"guests,omitzero" v1:"Present"`
	NotFollowed string           `json:"assignments_not_followed,omitzero" v1:"Behind"`
	Hypervisor  string           `json:"hypervisor_type,omitzero"`
	Down        string           `json:"hypervisor_down,omitzero"`
	Provider    provider.ID      `json:"root_provider,omitzero" v1:"Provider"`
	Devices     []deviceRecord   `json:"devices,omitzero" v1:"Devices"`
	Conditions  []string         `json:"conditions,omitzero" v1:"Conditions"`
	InPlacement bool             `json:"report_in_placement,omitzero" v1:"InPlacement"`
	Cells       []hostCellRecord `json:"numa_cells,omitzero" v1:"Cells"`
	Counted     []string         `json:"counted_guests,omitzero" v1:"Counted"`
	Limits      numaLimitsRecord `json:"allocation_ratios,omitzero" v1:"Limits"`

	CountedCells []countedCellsRecord `json:"counted_guest_cells,omitzero"` // of each of Counted
	NoDiskMoves  string               `json:"no_disk_moves,omitzero"`
	DiskImages   string               `json:"disk_images,omitzero"`
	NoDiskImages string               `json:"no_disk_images,omitzero"`
}

// countedCellsRecord is the NUMA cells of a guest that the agent has on its host.
type countedCellsRecord struct {
	NUMACells  []guestCellRecord `json:"numa_cells,omitzero"`
	CellPlaces []cellPlaceRecord `json:"numa_placement,omitzero"`
}

func toCounted(g schedule.CountedGuest) countedCellsRecord {
	return countedCellsRecord{each(g.Cells, toGuestCell), each(g.Placed, toCellPlace)}
}

// fromCounted joins the ids of guests with their cells.
func fromCounted(ids []string, cells []countedCellsRecord) []schedule.CountedGuest {
	n := -1
	return each(ids, func(id string) schedule.CountedGuest {
		if n++; n >= len(cells) {
			return schedule.CountedGuest{ID: id}
		}
		return schedule.CountedGuest{ID: id, Cells: each(cells[n].NUMACells, fromGuestCell),
			Placed: each(cells[n].CellPlaces, fromCellPlace)}
	})
}

// presentRecord is a guest that exists on the host.
type presentRecord struct {
	ID       string `json:"id,omitzero" v1:"ID"`
	Server   string `json:"server,omitzero" v1:"Server"`
	Assigned bool   `json:"assigned,omitzero" v1:"Assigned"`
}

// deviceRecord is one PCI device of the host. The parts are one JSON object.
type deviceRecord struct {
	pciRecord
	deviceOffer
}

// pciRecord is the device as the kernel shows it.
type pciRecord struct {
	Address    address  `json:"address" v1:"Address"`
	Vendor     string   `json:"vendor_id,omitzero" v1:"Vendor"`
	Product    string   `json:"product_id,omitzero" v1:"Product"`
	Class      uint32   `json:"pci_class,omitzero" v1:"Class"`
	Type       pci.Type `json:"dev_type,omitzero" v1:"Type"`
	Parent     *address `json:"parent_address,omitzero" v1:"Parent"`
	NUMANode   int      `json:"numa_node,omitzero" v1:"NUMANode"`
	Driver     string   `json:"driver,omitzero" v1:"Driver"`
	IOMMUGroup int      `json:"iommu_group,omitzero" v1:"IOMMUGroup"`
	TotalVFs   int      `json:"total_vfs,omitzero" v1:"TotalVFs"`
	NumVFs     int      `json:"num_vfs,omitzero" v1:"NumVFs"`
	VFProduct  string   `json:"vf_product_id,omitzero" v1:"VFProduct"`
	Serial     string   `json:"card_serial_number,omitzero" v1:"Serial"`
	Net        []string `json:"net_interfaces,omitzero" v1:"Net"`

	// version 7 has these first
	PFMAC    string `json:"pf_mac_address,omitzero"`
	VFNumber int    `json:"vf_num,omitzero"`
}

// deviceOffer is how the agent offers the device, and who has it.
type deviceOffer struct {
	ResourceClass  resource.Class   `json:"resource_class,omitzero" v1:"ResourceClass"`
	Traits         []resource.Trait `json:"traits,omitzero" v1:"Traits"`
	Provider       provider.ID      `json:"provider,omitzero" v1:"Provider"`
	State          pci.State        `json:"state,omitzero" v1:"State"` // a value of the host API
	Holder         string           `json:"holder,omitzero" v1:"Holder"`
	RequestID      string           `json:"request_id,omitzero" v1:"RequestID"`
	ForPorts       bool             `json:"for_ports,omitzero" v1:"ForPorts"`
	RemoteManaged  bool             `json:"remote_managed,omitzero" v1:"RemoteManaged"`
	LiveMigratable pci.Flag         `json:"live_migratable,omitzero" v1:"LiveMigratable"`
	OneTimeUse     bool             `json:"one_time_use,omitzero" v1:"OneTimeUse"`
	Used           bool             `json:"used,omitzero" v1:"Spent"`

	// version 4 has these first
	PhysicalNetwork *string `json:"physical_network,omitempty"`
	Trusted         bool    `json:"trusted,omitzero"`
}

// hostCellRecord is a NUMA node of the host.
type hostCellRecord struct {
	ID         int               `json:"node,omitzero" v1:"ID"`
	Socket     int               `json:"socket,omitzero" v1:"Socket"`
	CPUs       []int             `json:"shared_cpus,omitzero" v1:"CPUs"`
	Dedicated  []int             `json:"dedicated_cpus,omitzero" v1:"Dedicated"`
	Siblings   [][]int           `json:"thread_siblings,omitzero" v1:"Siblings"`
	MemoryMB   int               `json:"memory_mb,omitzero" v1:"MemoryMB"`
	Pages      []numaPagesRecord `json:"huge_pages,omitzero" v1:"Pages"`
	Pinned     []int             `json:"pinned_cpus,omitzero" v1:"Pinned"`
	Floating   int               `json:"floating_vcpus,omitzero" v1:"Floating"`
	UsedMemory int               `json:"used_memory_mb,omitzero" v1:"UsedMemory"`
}

type numaPagesRecord struct {
	SizeKB int `json:"size_kb,omitzero" v1:"SizeKB"`
	Total  int `json:"total,omitzero" v1:"Total"`
	Used   int `json:"used,omitzero" v1:"Used"`
}

type numaLimitsRecord struct {
	CPU    float64 `json:"cpu,omitzero" v1:"CPU"`
	Memory float64 `json:"ram,omitzero" v1:"Memory"`
}

// encodeHost returns the record of a host's report.
func encodeHost(h schedule.Host) ([]byte, error) { return encodeRecord("host "+h.Name, toHost(h)) }

// decodeHost reads the record of the host with this name, without Seen, Guests and Load. The record of another host, or
// of none, is refused.
func decodeHost(name string, text []byte) (schedule.Host, error) {
	var r hostRecord
	if err := decodeRecord("host "+name, text, &r); err != nil {
		return schedule.Host{}, err
	}
	if r.Name != name {
		return schedule.Host{}, foreignRecord("host "+name, r.Name)
	}
	return fromHost(r), nil
}

func toHost(h schedule.Host) hostRecord {
	return hostRecord{recordVersion, h.Name, h.Instance, h.Start, h.LockID,
		each(h.Present, func(p schedule.Present) presentRecord { return presentRecord(p) }), h.NotFollowed,
		h.Hypervisor, h.Down,
		h.Provider,
		each(h.Devices, toDevice), h.Conditions, h.InPlacement, each(h.Cells, toHostCell),
		each(h.Counted, func(g schedule.CountedGuest) string { return g.ID }),
		numaLimitsRecord(h.Limits), each(h.Counted, toCounted), h.NoDiskMoves, h.DiskImages, h.NoDiskImages}
}

func fromHost(r hostRecord) schedule.Host {
	return schedule.Host{
		Name: r.Name, Instance: r.Instance, Start: r.Start, LockID: r.LockID,
		Present:     each(r.Guests, func(p presentRecord) schedule.Present { return schedule.Present(p) }),
		NotFollowed: r.NotFollowed, Hypervisor: r.Hypervisor, Down: r.Down, Provider: r.Provider,
		Devices: each(r.Devices, fromDevice), Conditions: r.Conditions,
		InPlacement: r.InPlacement, Cells: each(r.Cells, fromHostCell), Counted: fromCounted(r.Counted, r.CountedCells),
		Limits: numa.Limits(r.Limits),
		Disks:  schedule.Disks{DiskImages: r.DiskImages, NoDiskImages: r.NoDiskImages, NoDiskMoves: r.NoDiskMoves},
	}
}

func toDevice(d pci.Offered) deviceRecord {
	return deviceRecord{
		pciRecord{address(d.Address), d.Vendor, d.Product, d.Class, d.Type, (*address)(d.Parent), d.NUMANode, d.Driver,
			d.IOMMUGroup, d.TotalVFs, d.NumVFs, d.VFProduct, d.Serial, d.Net, d.PFMAC, d.VFNumber},
		deviceOffer{d.ResourceClass, d.Traits, d.Provider, d.State, string(d.Holder), d.RequestID, d.ForPorts,
			d.RemoteManaged,
			d.LiveMigratable, d.OneTimeUse, d.Spent, d.PhysicalNetwork, d.Trusted},
	}
}

func fromDevice(r deviceRecord) pci.Offered {
	return pci.Offered{
		Device: pci.Device{
			Address: pci.Address(r.Address), Vendor: r.Vendor, Product: r.Product, Class: r.Class, Type: r.Type,
			Parent: (*pci.Address)(r.Parent), NUMANode: r.NUMANode, Driver: r.Driver, IOMMUGroup: r.IOMMUGroup,
			TotalVFs: r.TotalVFs, NumVFs: r.NumVFs, VFProduct: r.VFProduct, Serial: r.Serial, Net: r.Net,
			PFMAC: r.PFMAC, VFNumber: r.VFNumber,
		},
		ResourceClass: r.ResourceClass, Traits: r.Traits, Provider: r.Provider, State: r.State,
		Holder:    resource.ConsumerID(r.Holder),
		RequestID: r.RequestID, ForPorts: r.ForPorts, LiveMigratable: r.LiveMigratable,
		OneTimeUse: r.OneTimeUse, Spent: r.Used,
		PortTags: pci.PortTags{PhysicalNetwork: r.PhysicalNetwork, RemoteManaged: r.RemoteManaged, Trusted: r.Trusted},
	}
}

func toHostCell(c numa.Cell) hostCellRecord {
	return hostCellRecord{c.ID, c.Socket, c.CPUs, c.Dedicated, c.Siblings, c.MemoryMB,
		each(c.Pages, func(p numa.Pages) numaPagesRecord { return numaPagesRecord(p) }), c.Pinned, c.Floating,
		c.UsedMemory}
}

func fromHostCell(r hostCellRecord) numa.Cell {
	return numa.Cell{
		ID: r.ID, Socket: r.Socket, CPUs: r.CPUs, Dedicated: r.Dedicated, Siblings: r.Siblings, MemoryMB: r.MemoryMB,
		Pages:  each(r.Pages, func(p numaPagesRecord) numa.Pages { return numa.Pages(p) }),
		Pinned: r.Pinned, Floating: r.Floating, UsedMemory: r.UsedMemory,
	}
}
