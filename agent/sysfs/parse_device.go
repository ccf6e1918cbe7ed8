package sysfs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// raw is the content of the files of one device. Texts are "" when there is no such file.
type raw struct {
	vendor, device, class      string
	numaNode                   attribute
	totalVFs, numVFs, vfDevice attribute
	driver, group, physfn      string // last elements of what the symlinks point to
	net                        []string
}

// attributeFile is a file of an attribute that a device may lack.
type attributeFile struct {
	name  string
	to    *attribute
	ofAPF bool // only PFs have it
}

// files are the files of the attributes, in the order in which they are read: sriov_totalvfs says what is a PF.
func (r *raw) files() []attributeFile {
	return []attributeFile{{"numa_node", &r.numaNode, false}, {"sriov_totalvfs", &r.totalVFs, false},
		{"sriov_numvfs", &r.numVFs, true}, {"sriov_vf_device", &r.vfDevice, true}}
}

// attributeNames are the names of these files.
func attributeNames() (names []string) {
	for _, file := range new(raw).files() {
		names = append(names, file.name)
	}
	return names
}

// parseDevice parses what readDevice read. An error means that the device cannot be identified; a doubt is a sentence
// about one property, which is then taken as unknown.
func parseDevice(name string, r raw) (d pci.Device, doubts []string, err error) {
	if d.Address, err = pci.ParseAddress(name); err != nil {
		return d, nil, err
	}
	if d.Vendor, err = parseID("vendor", r.vendor); err != nil {
		return d, nil, err
	}
	if d.Product, err = parseID("device", r.device); err != nil {
		return d, nil, err
	}
	class, err := strconv.ParseUint(strings.TrimPrefix(r.class, "0x"), 16, 24)
	if err != nil {
		return d, nil, invalid("class %s is not a number such as 0x020000", quoted(r.class))
	}
	d.Class = uint32(class)
	if err := parseKind(&d, r); err != nil {
		return d, nil, err
	}
	d.Driver = r.driver
	d.Net = slices.Sorted(slices.Values(r.net))
	return d, parseProperties(&d, r), nil
}

// parseProperties parses properties that may be unknown. A file that does not exist leaves no doubt here.
func parseProperties(d *pci.Device, r raw) (doubts []string) {
	doubt := func(format string, args ...any) { doubts = append(doubts, fmt.Sprintf(format, args...)) }
	d.NUMANode, d.IOMMUGroup = pci.NoNUMA, pci.NoGroup
	if r.numaNode.there {
		if n, err := strconv.ParseInt(r.numaNode.text, 10, 32); err != nil || n < -1 {
			doubt("numa_node %s is not the number of a node: the node is taken as unknown; %s", quoted(r.numaNode.text),
				withoutNode)
		} else {
			d.NUMANode = int(n) // -1 when the firmware names none: pci.NoNUMA
		}
	}
	if r.group != "" {
		if n, err := strconv.ParseUint(r.group, 10, 31); err != nil {
			doubt("iommu_group leads to %s, which is not a number: the group is taken as unknown; check the IOMMU in "+
				"firmware and kernel log", quoted(r.group))
		} else {
			d.IOMMUGroup = int(n)
		}
	}
	if r.numVFs.there {
		if n, err := strconv.ParseUint(r.numVFs.text, 10, 16); err != nil {
			doubt("sriov_numvfs %s is not a number: the VFs that exist count all the same; check the driver of the PF",
				quoted(r.numVFs.text))
		} else {
			d.NumVFs = int(n)
		}
	}
	if r.vfDevice.there { // written without 0x
		if n, err := strconv.ParseUint(r.vfDevice.text, 16, 16); err != nil {
			doubt("sriov_vf_device %s is not a number: the product_id of its VFs is taken from the VFs that exist; "+
				"update the firmware of the card, or make its VFs first",
				quoted(r.vfDevice.text))
		} else {
			d.VFProduct = fmt.Sprintf("%04x", n)
		}
	}
	return doubts
}

// What to do about a device whose NUMA node is not known, because of what numa_node says, or because there is none.
const (
	withoutNode = "correct the firmware's tables, or " + byPolicy
	byPolicy    = "ask for it with the NUMA policy legacy or preferred, since required and socket never get it"
)

// quoted quotes a text from a file in a sentence. A long text is cut.
func quoted(text string) string {
	const most = 40
	if len(text) > most {
		return strconv.Quote(text[:most]) + "…"
	}
	return strconv.Quote(text)
}

// parseKind sets the type: a device with a physfn is a VF, one that can have VFs is a PF.
func parseKind(d *pci.Device, r raw) error {
	d.Type = pci.Plain
	if r.physfn != "" {
		parent, err := pci.ParseAddress(r.physfn)
		if err != nil {
			return invalid("physfn leads to %s, which is not a PCI address", quoted(r.physfn))
		}
		if parent == d.Address {
			return invalid("physfn leads to the device itself")
		}
		d.Type, d.Parent = pci.Virtual, &parent
		return nil
	}
	if !r.totalVFs.there {
		return nil
	}
	n, err := strconv.ParseUint(r.totalVFs.text, 10, 16)
	if err != nil {
		return invalid("sriov_totalvfs %s is not a number", quoted(r.totalVFs.text))
	}
	if n > 0 {
		d.Type, d.TotalVFs = pci.Physical, int(n)
	}
	return nil
}

// parseID parses a vendor or device number: four hexadecimal digits after 0x.
func parseID(file, text string) (string, error) {
	digits, prefixed := strings.CutPrefix(strings.ToLower(text), "0x")
	if _, err := strconv.ParseUint(digits, 16, 16); err != nil || !prefixed || len(digits) != 4 {
		return "", invalid("%s %s is not a number such as 0x8086", file, quoted(text))
	}
	return digits, nil
}

// parseUevent parses lines such as DRIVER=nvme.
func parseUevent(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			out[key] = value
		}
	}
	return out
}

// lastAddress returns the last element of a path that is a PCI address.
func lastAddress(name string) (a pci.Address, found bool) {
	for part := range strings.SplitSeq(name, "/") {
		if address, err := pci.ParseAddress(part); err == nil {
			a, found = address, true
		}
	}
	return a, found
}

func nodeNumber(name string) (int, bool) {
	digits, isNode := strings.CutPrefix(name, "node")
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), isNode && err == nil
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...)
}
