package novalink

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// System is a machine of a fake.
type System struct {
	UUID  string
	Name  string
	Slots []*Slot
	SRIOV []string // DRC indices of the slots whose adapters are in SR-IOV mode
	Owner bool     // IOSlotOwnerAssignmentCapable: slots report their owners
	// Shape of the answer.
	NoIO, NoSlots bool // the containers are missing
	Buses         bool // slots are repeated under IOBuses, as newer HMCs do
	// IgnoresSlots: partitions are created without the slots in the request, as by servers from before 2017.
	IgnoresSlots bool
	// IgnoresUpdates: slots in the request that changes a partition are ignored too.
	IgnoresUpdates bool
	// ChoosesUUIDs: the server chooses the UUIDs of partitions, whatever the request says.
	ChoosesUUIDs bool
	// Hidden are the names of partitions that exist and that the feed of partitions lacks.
	Hidden []string
	State  string // empty: operating
	// Others is the memory in MiB and the processor units that other partitions have.
	OthersMemory int
	OthersUnits  float64
	// Contested are the requests for a slot that another partition had. They were refused.
	Contested []string

	partitions []*partition
	revision   int // of the ETag
	lastID     int // of partitions
}

// Slot is an I/O slot: the fields of the wire format, as decimal text. Absent fields are empty.
type Slot struct {
	Index                              uint32
	Name, Description                  string
	Vendor, Device, Class, Revision    string
	SubsysVendor, SubsysDevice         string
	FeatureCodes                       []string
	BusGrouping                        bool
	Unassignable                       bool
	ForeignID, ForeignName, ForeignUID string // of an owner outside of the fake's partitions; ForeignID empty: none
}

// GPU returns a slot with a 3D controller and all fields.
func GPU(index uint32, name string) *Slot {
	return &Slot{Index: index, Name: name, Description: "3D Controller", Vendor: "4318", Device: "7601", Class: "770",
		Revision: "161", SubsysVendor: "4318", SubsysDevice: "4626", FeatureCodes: []string{"EC4J", "0"}}
}

// Empty returns a slot without an adapter.
func Empty(index uint32, name string) *Slot {
	return &Slot{Index: index, Name: name, Description: "Empty slot", Vendor: "65535", Device: "65535", Class: "65535",
		Revision: "255", SubsysVendor: "65535", SubsysDevice: "65535"}
}

// The size of each system: memory and the size of a memory region in MiB, and processor units.
const (
	Memory = 262144
	Region = 256
	Units  = 64
)

// available returns the memory and the processor units that no partition has. A partition has its own while it runs.
func (s *System) available() (memory int, units float64) {
	memory, units = Memory-s.OthersMemory, Units-s.OthersUnits
	for _, p := range s.partitions {
		if p.running {
			memory, units = memory-p.memory(), units-p.units()
		}
	}
	return memory, units
}

// Touch changes the ETag of the system. It must be called in Server.Change.
func (s *System) Touch() { s.revision++ }

func (s *System) etag() string { return strconv.Itoa(-1204 - s.revision) }

// Owners returns the name of the partition that has each slot, for tests.
func (s *System) Owners() map[uint32]string {
	out := map[uint32]string{}
	for _, p := range s.partitions {
		for _, index := range p.slots() {
			out[index] = p.name()
		}
	}
	return out
}

// virtualIOServers returns the owners outside of the fake's partitions, with their slots.
func (s *System) virtualIOServers() (entries []*element) {
	profiles := map[string]*element{}
	for _, slot := range s.Slots {
		if slot.ForeignID == "" {
			continue
		}
		if profiles[slot.ForeignID] == nil {
			profiles[slot.ForeignID] = obj("ProfileIOSlots")
			uuid := cmp.Or(slot.ForeignUID, "0ABCDEF0-0000-4000-8000-"+fmt.Sprintf("%012s", slot.ForeignID))
			entries = append(entries, entryOf(uuid, "1", obj("VirtualIOServer", value("PartitionID", slot.ForeignID),
				obj("PartitionIOConfiguration", profiles[slot.ForeignID]), value("PartitionName", slot.ForeignName),
				value("PartitionType", "Virtual IO Server"), value("PartitionUUID", uuid))))
		}
		profiles[slot.ForeignID].add(obj("ProfileIOSlot", obj("AssociatedIOSlot",
			value("SlotDynamicReconfigurationConnectorIndex", fmt.Sprint(slot.Index)))))
	}
	return entries
}

func (s *System) owner(index uint32) *partition {
	i := slices.IndexFunc(s.partitions, func(p *partition) bool { return slices.Contains(p.slots(), index) })
	if i < 0 {
		return nil
	}
	return s.partitions[i]
}

func (s *System) slot(index uint32) *Slot {
	i := slices.IndexFunc(s.Slots, func(slot *Slot) bool { return slot.Index == index })
	if i < 0 {
		return nil
	}
	return s.Slots[i]
}

// entry returns the system as an Atom entry.
func (s *System) entry() *element { return entryOf(s.UUID, s.etag(), s.object()) }

func (s *System) object() *element {
	memory, units := s.available()
	n := obj("ManagedSystem",
		obj("AssociatedSystemCapabilities", value("IOSlotOwnerAssignmentCapable", fmt.Sprint(s.Owner))),
		obj("AssociatedSystemMemoryConfiguration", value("ConfigurableSystemMemory", fmt.Sprint(Memory)),
			value("CurrentAvailableSystemMemory", fmt.Sprint(memory)), value("MemoryRegionSize", fmt.Sprint(Region))),
		obj("AssociatedSystemProcessorConfiguration", value("ConfigurableSystemProcessorUnits", fmt.Sprint(Units)),
			value("CurrentAvailableSystemProcessorUnits", fmt.Sprintf("%.2f", units))),
		obj("State").text(cmp.Or(s.State, "operating")), value("SystemName", s.Name)).with("schemaVersion", "V1_3_0")
	if s.NoIO {
		return n
	}
	var slots []*element
	for _, slot := range s.Slots {
		slots = append(slots, s.slotNode(slot))
	}
	io := obj("AssociatedSystemIOConfiguration", obj("IOAdapters"))
	if s.Buses {
		io.add(obj("IOBuses", obj("IOBus", obj("IOSlots", slots...))))
	}
	if !s.NoSlots {
		io.add(obj("IOSlots", slots...))
	}
	var adapters []*element
	for _, index := range s.SRIOV {
		adapters = append(adapters, obj("IOAdapterChoice", obj("SRIOVAdapter", value("AdapterID", index),
			value("AdapterMode", "Sriov"))))
	}
	io.add(obj("SRIOVAdapters", adapters...))
	n.children = slices.Insert(n.children, 1, io)
	return n
}

// slotNode returns a slot with its owner, if the system reports owners.
func (s *System) slotNode(slot *Slot) *element {
	n := obj("IOSlot", value("BusGroupingRequired", fmt.Sprint(slot.BusGrouping)), value("Description", slot.Description))
	add := func(name, text string) {
		if text != "" {
			n.add(value(name, text))
		}
	}
	for _, code := range slot.FeatureCodes {
		add("FeatureCodes", code)
	}
	if s.Owner {
		if p := s.owner(slot.Index); p != nil {
			add("PartitionID", p.id)
			add("PartitionUUID", p.uuid)
			add("PartitionName", p.name())
			add("PartitionType", "AIX/Linux")
		} else {
			add("PartitionID", slot.ForeignID)
			add("PartitionUUID", slot.ForeignUID)
			add("PartitionName", slot.ForeignName)
		}
	}
	add("PCIClass", slot.Class)
	add("PCIDeviceID", slot.Device)
	add("PCISubsystemDeviceID", slot.SubsysDevice)
	add("PCIRevisionID", slot.Revision)
	add("PCIVendorID", slot.Vendor)
	add("PCISubsystemVendorID", slot.SubsysVendor)
	if slot.Unassignable {
		n.add(obj("RelatedIOAdapter", obj("IOAdapter", value("LogicalPartitionAssignmentCapable", "false"))))
	}
	add("SlotDynamicReconfigurationConnectorIndex", fmt.Sprint(slot.Index))
	add("SlotDynamicReconfigurationConnectorName", slot.Name)
	return n
}

// system returns the system with a UUID.
func (s *Server) system(uuid string) *System {
	i := slices.IndexFunc(s.systems, func(one *System) bool { return strings.EqualFold(one.UUID, uuid) })
	if i < 0 {
		return nil
	}
	return s.systems[i]
}
