// Package ioslot defines the physical I/O slots of a PowerVM system: their identity, their adapters and their owners.
//
// FromSystem derives them from the decoded answer of the management REST API. The rules, such as S8, are in
// docs/behaviour/powervm-ioslots.md. The package does no I/O.
package ioslot

import (
	"fmt"
	"strings"
)

// Index is the DRC index of a slot. It is unique on its system; two systems of one model have the same indices.
type Index uint32

// String returns the index as eight upper-case hexadecimal digits, the form of the inventory file and of names.
func (i Index) String() string { return fmt.Sprintf("%08X", uint32(i)) }

// ParseIndex reads the form that String returns, and no other.
func ParseIndex(text string) (index Index, ok bool) {
	if len(text) != 8 || strings.Trim(text, "0123456789ABCDEF") != "" {
		return 0, false
	}
	_, err := fmt.Sscanf(text, "%08X", (*uint32)(&index))
	return index, err == nil
}

// Number is a PCI register of the adapter in a slot. The zero value is a register that the system does not report.
type Number struct {
	Value uint16
	Known bool
}

// Known returns the number of a register that the system reports.
func Known(value uint16) Number { return Number{Value: value, Known: true} }

// Slot is one physical I/O slot, with the adapter in it.
type Slot struct {
	Index        Index
	Name         string // DRC name, the location code, such as U78CB.001.WZS06S2-P1-C7; two slots may share one
	Description  string
	FeatureCodes []string

	Vendor, Device             Number
	SubsysVendor, SubsysDevice Number
	Class                      Number // base class and subclass: 0302 is a 3D controller
	Revision                   Number // 0 to 255

	BusGrouping  bool // BusGroupingRequired: must be sent back when the slot is assigned to a partition
	SRIOV        bool // the adapter is in SR-IOV mode: the hypervisor owns it
	Unassignable bool // the system says that no partition can have the adapter
	Owner        Owner
}

// Ownership says what is known of a slot's owner.
type Ownership int

// The kinds of ownership.
const (
	OwnerUnknown Ownership = iota // the system does not report owners
	Unowned                       // no partition has the slot
	Owned                         // a partition has the slot
)

// Owner is the partition that has a slot.
type Owner struct {
	Kind        Ownership
	PartitionID int    // 0: not reported
	UUID        string // upper case; "" when not reported
	Name        string
	Type        string // "AIX/Linux", "OS400" or "Virtual IO Server"
}

// String describes the owner: name and number of the partition, as far as reported.
func (o Owner) String() string {
	switch {
	case o.Kind == OwnerUnknown:
		return "unknown owner"
	case o.Kind == Unowned:
		return "no owner"
	case o.Name == "":
		return fmt.Sprintf("partition %d", o.PartitionID)
	}
	return fmt.Sprintf("partition %d (%s)", o.PartitionID, o.Name)
}

// Clause describes the owner as the end of a sentence that begins with the slot.
func (o Owner) Clause() string {
	if o.Kind == Owned {
		return "belongs to " + o.String()
	}
	return "has " + strings.Replace(o.String(), "unknown", "an unknown", 1)
}

// Key is a property by which the inventory file identifies slots, as it is written there.
type Key string

// The keys.
const (
	VendorID       Key = "vendor_id"
	DeviceID       Key = "device_id"
	SubsysVendorID Key = "subsys_vendor_id"
	SubsysDeviceID Key = "subsys_device_id"
	Class          Key = "class"
	RevisionID     Key = "revision_id"
	DRCIndex       Key = "drc_index"
	DRCName        Key = "drc_name"
)

// Keys returns all keys in the order of the specification.
func Keys() []Key {
	return []Key{VendorID, DeviceID, SubsysVendorID, SubsysDeviceID, Class, RevisionID, DRCIndex, DRCName}
}

// Digits returns the number of hexadecimal digits of the key's values; 0 for drc_name, whose values are text.
func (k Key) Digits() int {
	switch k {
	case DRCName:
		return 0
	case DRCIndex:
		return 8
	case RevisionID:
		return 2
	}
	return 4
}

// Property returns a property of the slot in the form of the inventory file. ok is false when the system does not
// report it: a missing number is never formatted (C12).
func (s Slot) Property(k Key) (text string, ok bool) {
	var n Number
	switch k {
	case DRCIndex:
		return s.Index.String(), true
	case DRCName:
		return s.Name, s.Name != ""
	case VendorID:
		n = s.Vendor
	case DeviceID:
		n = s.Device
	case SubsysVendorID:
		n = s.SubsysVendor
	case SubsysDeviceID:
		n = s.SubsysDevice
	case Class:
		n = s.Class
	case RevisionID:
		n = s.Revision
	}
	if !n.Known {
		return "", false
	}
	return fmt.Sprintf("%0*X", k.Digits(), n.Value), true
}

// emptyDescription is the description of a slot without an adapter.
const emptyDescription = "Empty slot"

// WhyNoDevice returns why the slot has no adapter that a guest can be given, as the end of a sentence that begins with
// the slot; "" when it has one (S11 to S13).
func (s Slot) WhyNoDevice() string {
	switch {
	case s.Description == emptyDescription:
		return "is empty"
	case s.Vendor == Known(0xFFFF):
		return "is empty: its vendor is FFFF"
	case s.Vendor == Known(0):
		return "has no known adapter: its vendor is 0000"
	case s.SRIOV:
		return "has an adapter in SR-IOV mode, which the hypervisor owns"
	case s.Unassignable:
		return "has an adapter that the system does not assign to partitions"
	}
	return ""
}

// HasCable reports whether the PCI class is that of a network or storage adapter. Placement does not consider what such
// an adapter is connected to (R2).
func (s Slot) HasCable() bool {
	base := s.Class.Value >> 8
	return s.Class.Known && (base == 1 || base == 2 || s.Class.Value == 0x0C04)
}

// String names the slot for messages: DRC index and name.
func (s Slot) String() string {
	if s.Name == "" {
		return s.Index.String()
	}
	return fmt.Sprintf("%s (%s)", s.Index, s.Name)
}
