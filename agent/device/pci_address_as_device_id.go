package device

import (
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// ID identifies a device on its host: by its PCI address, or by the DRC index of its I/O slot. IDs are comparable. The
// text of an ID is its form in the journal, in the records of hypervisors and in the host API. The zero value
// identifies no device that can be offered: it is the text 0000:00:00.0, the address of a host bridge.
type ID struct {
	address pci.Address
}

// PCI returns the ID of the device at an address.
func PCI(address pci.Address) ID { return ID{address: address} }

// ParseID reads the text of an ID. The fault is Invalid and names the text.
func ParseID(text string) (ID, error) {
	address, err := pci.ParseAddress(text)
	if err != nil {
		return ID{}, fault.Wrap("", err)
	}
	return PCI(address), nil
}

// Address returns the device's address.
func (id ID) Address() pci.Address { return id.address }

// MarshalText returns the text.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the text; faults as of ParseID.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	*id = parsed
	return err
}

// Compare orders IDs like addresses.
func (id ID) Compare(other ID) int { return id.address.Compare(other.address) }

// String returns the text.
func (id ID) String() string { return id.address.String() }
