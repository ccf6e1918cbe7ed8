package pci

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
)

// Address is a PCI address. The kernel writes it as `%04x:%02x:%02x.%d`. Behind some host bridges (Intel VMD,
// Hyper-V) the domain has five digits or more.
type Address struct {
	Domain uint32
	Bus    uint8
	Slot   uint8 // 0 to 0x1f
	Func   uint8 // 0 to 7
}

// ParseAddress parses `DDDD:BB:SS.F`, hexadecimal in either case; the domain has four to eight digits.
func ParseAddress(text string) (Address, error) {
	bad := func() (Address, error) {
		return Address{}, fault.New(fault.Invalid, "pci.ParseAddress",
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

// String formats the address as the kernel does, in lower case.
func (a Address) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Slot, a.Func)
}

// Compare orders addresses by domain, bus, slot and function.
func (a Address) Compare(b Address) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Slot, b.Slot),
		cmp.Compare(a.Func, b.Func))
}

// ProviderName returns the name of the device's resource provider, "<hypervisor_hostname>_<pci_address>". The
// address is in upper case, as in Nova. Otherwise a cloud that migrates from Nova would get a second provider for
// each device.
func (a Address) ProviderName(hostname string) string {
	return hostname + "_" + strings.ToUpper(a.String())
}
