package pci

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
)

// Address identifies a device on its host: a PCI address, or on a PowerVM host the DRC index of the I/O slot that has
// the adapter. The kernel writes a PCI address as `%04x:%02x:%02x.%d`. Behind some host bridges (Intel VMD, Hyper-V)
// the domain has five digits or more. A DRC index is written as eight upper-case hexadecimal digits.
type Address struct {
	Domain uint32
	Bus    uint8
	Slot   uint8  // 0 to 0x1f
	Func   uint8  // 0 to 7
	DRC    uint32 // DRC index of an I/O slot, and then the other fields are 0; 0: a PCI address
}

// IOSlot returns the address of the adapter in an I/O slot. The index 0 identifies no slot.
func IOSlot(drcIndex uint32) Address { return Address{DRC: drcIndex} }

// IsIOSlot reports whether the address is that of the adapter in an I/O slot.
func (a Address) IsIOSlot() bool { return a.DRC != 0 }

// parseDRC reads the text of an I/O slot's address.
func parseDRC(text string) (Address, bool) {
	if len(text) != 8 || strings.Trim(text, "0123456789ABCDEF") != "" {
		return Address{}, false
	}
	n, err := strconv.ParseUint(text, 16, 32)
	return IOSlot(uint32(n)), err == nil && n != 0
}

// ParseAddress parses `DDDD:BB:SS.F`, hexadecimal in either case; the domain has four to eight digits. Eight upper-case
// hexadecimal digits alone are a DRC index.
func ParseAddress(text string) (Address, error) {
	if slot, ok := parseDRC(text); ok {
		return slot, nil
	}
	bad := func() (Address, error) {
		return Address{}, fault.New(fault.Invalid,
			"%q is not a PCI address; write it as DDDD:BB:SS.F, for example 0000:3b:00.1", text)
	}
	domain, rest, ok1 := strings.Cut(text, ":")
	bus, rest, ok2 := strings.Cut(rest, ":")
	slot, fn, ok3 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || !ok3 || len(domain) < 4 || len(domain) > 8 || len(bus) != 2 || len(slot) != 2 || len(fn) != 1 {
		return bad()
	}
	d, err1 := hex(domain, 0xffffffff)
	b, err2 := hex(bus, 0xff)
	s, err3 := hex(slot, 0x1f)
	f, err4 := hex(fn, 7)
	if cmp.Or(err1, err2, err3, err4) != nil {
		return bad()
	}
	return Address{Domain: uint32(d), Bus: uint8(b), Slot: uint8(s), Func: uint8(f)}, nil
}

// hex parses an unsigned hexadecimal number of at most limit, with nothing before or after it.
func hex(text string, limit uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 16, 32)
	if err == nil && n > limit {
		return 0, strconv.ErrRange
	}
	return n, err
}

// String formats a PCI address as the kernel does, in lower case, and a DRC index with eight upper-case digits.
func (a Address) String() string {
	if a.IsIOSlot() {
		return fmt.Sprintf("%08X", a.DRC)
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Slot, a.Func)
}

// Compare orders addresses by domain, bus, slot and function; I/O slots follow, by index.
func (a Address) Compare(b Address) int {
	return cmp.Or(cmp.Compare(a.DRC, b.DRC), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus),
		cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Func, b.Func))
}

// ProviderName returns the name of the device's resource provider, "<hypervisor_hostname>_<pci_address>". The
// address is in upper case, as in Nova. Otherwise a cloud that migrates from Nova would get a second provider for
// each device.
func (a Address) ProviderName(hostname string) string {
	return hostname + "_" + strings.ToUpper(a.String())
}
