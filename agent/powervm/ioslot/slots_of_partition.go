package ioslot

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// PartitionUUID returns the UUID of the partition of a server: that of the server in upper case, without the highest
// bit, which partitions do not have. text is not checked to be a UUID.
func PartitionUUID(server string) string {
	text := strings.ToUpper(server)
	if text == "" {
		return ""
	}
	first, err := strconv.ParseUint(text[:1], 16, 8)
	if err != nil {
		return text
	}
	return fmt.Sprintf("%X", first&7) + text[1:]
}

// ForPartition returns the slots with these indices, to be assigned to the partition with a UUID. A slot that it has
// already is fine.
//
// Conflict, with all slots concerned, when one is missing, has no device or belongs to another partition: another host
// may be tried, and nothing may be sent to the server (R49). Unavailable when the system does not report its slots or
// their owners. Invalid when an index occurs twice.
func (s System) ForPartition(partition string, indices []Index) ([]Slot, error) {
	if !s.Reported && len(indices) > 0 {
		return nil, fault.New(fault.Unavailable, "the system does not report its I/O slots; it is retried")
	}
	var list []Slot
	var wrong []string
	seen := map[Index]bool{}
	for _, index := range indices {
		slot, ok := s.Find(index)
		switch {
		case seen[index]:
			return nil, fault.New(fault.Invalid, "the I/O slot %s is requested twice; request it once", index)
		case !ok:
			wrong = append(wrong, fmt.Sprintf("the system has no I/O slot %s", index))
		case slot.WhyNoDevice() != "":
			wrong = append(wrong, fmt.Sprintf("the I/O slot %s %s", slot, slot.WhyNoDevice()))
		case slot.Owner.Kind == OwnerUnknown:
			return nil, fault.New(fault.Unavailable, "the owner of the I/O slot %s is unknown; it is retried", slot)
		case slot.Owner.Kind == Owned && (partition == "" || !strings.EqualFold(slot.Owner.UUID, partition)):
			wrong = append(wrong, fmt.Sprintf("the I/O slot %s belongs to %s", slot, slot.Owner))
		}
		seen[index] = true
		list = append(list, slot)
	}
	if len(wrong) > 0 {
		return nil, fault.New(fault.Conflict, "%s; another host is needed", strings.Join(wrong, ", "))
	}
	return list, nil
}

// Profile returns slots in the form in which a partition requests them.
func Profile(slots []Slot) (list []uom.IOSlot) {
	for _, s := range slots {
		list = append(list, uom.IOSlot{Index: strconv.FormatUint(uint64(s.Index), 10),
			BusGrouping: strconv.FormatBool(s.BusGrouping)})
	}
	return list
}
