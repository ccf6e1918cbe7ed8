// Package uom decodes and builds the XML objects of PowerVM's management REST API, K2: managed systems, partitions,
// jobs and errors, and the Atom documents around them.
//
// Decoding is tolerant: elements match by their local names, in any order and with any prefix; unknown elements and
// attributes are ignored; values are the text of the elements, and package ioslot interprets them. Building is strict:
// the server accepts the elements of an object only in the order of its schema. The package does no I/O.
package uom

import "strings"

// Namespaces of the objects.
const (
	Namespace    = "http://www.ibm.com/xmlns/systems/power/firmware/uom/mc/2012_10/"
	WebNamespace = "http://www.ibm.com/xmlns/systems/power/firmware/web/mc/2012_10/"
)

// ManagedSystem is a machine.
type ManagedSystem struct {
	UUID         string           `xml:"Metadata>Atom>AtomID"` // Feed and One set it from the entry when it is missing
	SystemName   string           `xml:"SystemName"`
	State        string           `xml:"State"` // "operating" when usable
	Capabilities Capabilities     `xml:"AssociatedSystemCapabilities"`
	IO           *IOConfiguration `xml:"AssociatedSystemIOConfiguration"` // nil while the system is initializing
	// What all partitions together may have: processors as a decimal fraction, and MiB.
	ProcessorUnits string `xml:"AssociatedSystemProcessorConfiguration>ConfigurableSystemProcessorUnits"`
	MemoryMB       string `xml:"AssociatedSystemMemoryConfiguration>ConfigurableSystemMemory"`
	// The part of these that no partition has.
	FreeUnits    string `xml:"AssociatedSystemProcessorConfiguration>CurrentAvailableSystemProcessorUnits"`
	FreeMemoryMB string `xml:"AssociatedSystemMemoryConfiguration>CurrentAvailableSystemMemory"`
	// Partitions have whole regions of memory; its size in MiB, by two names.
	RegionMB string `xml:"AssociatedSystemMemoryConfiguration>MemoryRegionSize"`
	BlockMB  string `xml:"AssociatedSystemMemoryConfiguration>CurrentLogicalMemoryBlockSize"`
}

// Capabilities are the capabilities of a managed system that matter for slots.
type Capabilities struct {
	SlotOwners string `xml:"IOSlotOwnerAssignmentCapable"` // "true": slots report their owners
}

// IOConfiguration is the I/O hardware of a system. A nil container was not in the answer, which differs from an empty
// one. Slots that some servers repeat under IOBuses are not read.
type IOConfiguration struct {
	Slots *IOSlots       `xml:"IOSlots"`
	SRIOV *SRIOVAdapters `xml:"SRIOVAdapters"`
}

// IOSlots is the container of slots.
type IOSlots struct {
	Slots []IOSlot `xml:"IOSlot"`
}

// SRIOVAdapters is the container of adapters that can be in SR-IOV mode.
type SRIOVAdapters struct {
	Adapters []SRIOVAdapter `xml:"IOAdapterChoice>SRIOVAdapter"`
}

// SRIOVAdapter is one of them. ID is the DRC index of its slot.
type SRIOVAdapter struct {
	ID   string `xml:"AdapterID"`
	Mode string `xml:"AdapterMode"` // Sriov, Dedicated, ForceDedicated or unknown
}

// IOSlot is a slot as the server reports it. Numbers are decimal text.
type IOSlot struct {
	BusGrouping   string         `xml:"BusGroupingRequired"`
	Description   string         `xml:"Description"`
	FeatureCodes  []string       `xml:"FeatureCodes"`
	PartitionID   string         `xml:"PartitionID"`
	PartitionUUID string         `xml:"PartitionUUID"`
	PartitionName string         `xml:"PartitionName"`
	PartitionType string         `xml:"PartitionType"`
	Class         string         `xml:"PCIClass"`
	Device        string         `xml:"PCIDeviceID"`
	SubsysDevice  string         `xml:"PCISubsystemDeviceID"`
	Revision      string         `xml:"PCIRevisionID"`
	Vendor        string         `xml:"PCIVendorID"`
	SubsysVendor  string         `xml:"PCISubsystemVendorID"`
	Adapter       RelatedAdapter `xml:"RelatedIOAdapter"`
	Index         string         `xml:"SlotDynamicReconfigurationConnectorIndex"`
	Name          string         `xml:"SlotDynamicReconfigurationConnectorName"`
}

// RelatedAdapter is the adapter in a slot, where the server reports it. Old servers put its fields directly here, newer
// ones into a child.
type RelatedAdapter struct {
	Assignable   string    `xml:"LogicalPartitionAssignmentCapable"`
	IO           []Adapter `xml:"IOAdapter"`
	FibreChannel []Adapter `xml:"PhysicalFibreChannelAdapter"`
}

// Adapter is the child of a RelatedAdapter.
type Adapter struct {
	Assignable string `xml:"LogicalPartitionAssignmentCapable"`
}

// Unassignable reports whether the server says that no partition can have the adapter. Without a statement it can.
func (r RelatedAdapter) Unassignable() bool {
	says := []string{r.Assignable}
	for _, a := range append(r.IO, r.FibreChannel...) {
		says = append(says, a.Assignable)
	}
	for _, text := range says {
		if strings.TrimSpace(text) == "false" {
			return true
		}
	}
	return false
}

// Partition is a logical partition or a virtual I/O server.
type Partition struct {
	ID     string        `xml:"PartitionID"`
	Name   string        `xml:"PartitionName"`
	State  string        `xml:"PartitionState"` // "running", "not activated"
	Type   string        `xml:"PartitionType"`
	UUID   string        `xml:"PartitionUUID"`
	AtomID string        `xml:"Metadata>Atom>AtomID"` // the same, where the server reports it
	Slots  []ProfileSlot `xml:"PartitionIOConfiguration>ProfileIOSlots>ProfileIOSlot"`
	// MiB that it has now; empty: not reported
	MemoryMB string `xml:"PartitionMemoryConfiguration>CurrentMemory"`
}

// ProfileSlot is a slot that a partition has.
type ProfileSlot struct {
	Slot     IOSlot `xml:"AssociatedIOSlot"`
	Required string `xml:"IsRequired"` // absent: false
}

// SlotIndices returns the DRC indices of the partition's slots, as decimal text.
func (p Partition) SlotIndices() (indices []string) {
	for _, s := range p.Slots {
		indices = append(indices, s.Slot.Index)
	}
	return indices
}

// HTTPError is the content of the answer to a failed request.
type HTTPError struct {
	Status     string `xml:"HTTPStatus"`
	ReasonCode string `xml:"ReasonCode"`
	Message    string `xml:"Message"`
}

// LogonResponse is the answer to a logon. One of the fields has a value.
type LogonResponse struct {
	Token     string `xml:"X-API-Session"`
	TokenFile string `xml:"X-API-SessionFile"` // a path on the server
}

// JobResponse is the state of a job.
type JobResponse struct {
	ID        string         `xml:"JobID"`
	Status    string         `xml:"Status"`
	Results   []JobParameter `xml:"Results>JobParameter"`
	Exception string         `xml:"ResponseException>Message"`
}

// JobParameter is a parameter or a result of a job.
type JobParameter struct {
	Name  string `xml:"ParameterName"`
	Value string `xml:"ParameterValue"`
}
