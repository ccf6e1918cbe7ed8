package flavor

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/numa"
)

// The extra specs about NUMA. Images have the same properties with hw_ instead of hw:.
const (
	nodesSpec = "hw:numa_nodes"
	cpusSpec  = "hw:numa_cpus." // followed by the number of the guest's cell
	memSpec   = "hw:numa_mem."  // likewise, in MiB
	pagesSpec = "hw:mem_page_size"
)

// Topology returns the NUMA cells of a server with this flavor and image, by number. It returns nil if the server has
// none and may be placed anywhere on a host. A server has NUMA cells if flavor or image set hw:numa_nodes or
// hw:mem_page_size or require dedicated CPUs; PCI devices alone do not create any. Without hw:numa_cpus.N and
// hw:numa_mem.N the cells are equal.
//
// A value that is not valid, or an image that contradicts the flavor, yields a fault of kind Invalid that names the
// extra spec or image property.
func Topology(f Flavor, i Image) ([]numa.GuestCell, error) {
	c, err := readCPUs(f, i)
	if err != nil {
		return nil, err
	}
	return topology(f, i, c)
}

// topology is Topology with the CPU settings already read.
func topology(f Flavor, i Image, c cpus) ([]numa.GuestCell, error) {
	nodes, err := readNodes(f, i)
	if err != nil {
		return nil, err
	}
	pageKB, err := readPages(f, i)
	if err != nil {
		return nil, err
	}
	cells, err := readMaps(f, i)
	if err != nil {
		return nil, err
	}
	switch {
	case nodes == 0 && len(cells) > 0:
		return nil, invalid("%s divides the server into NUMA cells; set their number in %s",
			slices.Sorted(maps.Keys(cells))[0], nodesSpec)
	case nodes == 0 && pageKB == numa.SmallPages && len(c.dedicated) == 0:
		return nil, nil
	}
	if f.VCPUs > maxCPUs {
		return nil, invalid("the flavor has %d CPUs; a server with NUMA cells has at most %d", f.VCPUs, maxCPUs)
	}
	parts, err := divide(f, max(nodes, 1), cells)
	if err != nil {
		return nil, err
	}
	for n := range parts {
		p := &parts[n]
		p.Threads, p.PageKB = c.threads, pageKB
		p.Dedicated = slices.DeleteFunc(slices.Clone(p.VCPUs), func(v int) bool {
			return !slices.Contains(c.dedicated, v)
		})
		if pageKB > 0 && p.MemoryMB*1024%pageKB != 0 {
			return nil, invalid("%s is %d KiB, and the %d MiB of the server's NUMA cell %d are not a multiple of it",
				pagesSpec, pageKB, p.MemoryMB, n)
		}
	}
	parts[0].Emulator = c.emulator
	return parts, nil
}

// readNodes returns the number of NUMA cells, or 0 if it is not set.
func readNodes(f Flavor, i Image) (int, error) {
	w := readSetting(f, i, nodesSpec)
	if w.flavor != "" && w.image != "" && w.flavor != w.image {
		return 0, w.forbidden()
	}
	text := cmp.Or(w.flavor, w.image)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n < 1 {
		return 0, invalid("%s is %q; write a whole number from 1", w.source(), text)
	}
	return int(n), nil
}

var sizeText = regexp.MustCompile(`^([0-9]+) *(?i:([kmgt])(i?b)?)?$`)

// readPages returns the page size in KiB, or one of numa's constants. The image may set it only if the flavor permits
// several sizes or sets the same.
func readPages(f Flavor, i Image) (int, error) {
	w := readSetting(f, i, pagesSpec)
	fromFlavor, err := parsePages(setting{key: w.key, flavor: w.flavor})
	if err != nil {
		return 0, err
	}
	fromImage, err := parsePages(setting{key: w.key, image: w.image})
	if err != nil || w.image == "" {
		return fromFlavor, err
	}
	switch {
	case fromFlavor == numa.AnyPages, fromFlavor == fromImage,
		fromFlavor == numa.LargePages && fromImage > 0:
		return fromImage, nil
	}
	return 0, w.forbidden()
}

// parsePages parses a page size: a number in KiB, a number with a unit, or small, large or any.
func parsePages(w setting) (int, error) {
	text := strings.ToLower(w.flavor + w.image)
	switch text {
	case "":
		return numa.SmallPages, nil
	case "small":
		return numa.OwnPages, nil
	case "large":
		return numa.LargePages, nil
	case "any":
		return numa.AnyPages, nil
	}
	m := sizeText.FindStringSubmatch(text)
	if m == nil {
		return 0, invalid("%s is %q; write small, large, any, or a size such as 2048 (KiB), 2MB or 1GB",
			w.source(), text)
	}
	kb, err := strconv.ParseUint(m[1], 10, 31)
	switch m[2] {
	case "m":
		kb <<= 10
	case "g":
		kb <<= 20
	case "t":
		kb <<= 30
	}
	if err != nil || kb == 0 || kb > 1<<40 || kb&(kb-1) != 0 {
		return 0, invalid("%s is %q; the page size must be a power of two that the hardware supports", w.source(), text)
	}
	if kb == 4 {
		return numa.OwnPages, nil
	}
	return int(kb), nil
}

var mapSpec = regexp.MustCompile(`^hw[:_]numa_(cpus|mem)\.([0-9]{1,4})$`)

// readMaps returns the settings hw:numa_cpus.N and hw:numa_mem.N by the flavor's key. They come from the flavor or from
// the image; an image that contradicts the flavor yields a fault.
func readMaps(f Flavor, i Image) (map[string]string, error) {
	out := map[string]string{}
	for key, value := range f.ExtraSpecs {
		if mapSpec.MatchString(key) && strings.HasPrefix(key, "hw:") {
			out[key] = value
		}
	}
	ofFlavor := len(out)
	for _, key := range slices.Sorted(maps.Keys(i.Properties)) {
		own := strings.Replace(key, "hw_", "hw:", 1)
		switch m := mapSpec.FindStringSubmatch(key); {
		case m == nil || !strings.HasPrefix(key, "hw_"):
		case ofFlavor > 0 && out[own] != i.Properties[key]:
			return nil, setting{key: own, flavor: out[own], image: i.Properties[key]}.forbidden()
		default:
			out[own] = i.Properties[key]
		}
	}
	return out, nil
}

// divide returns the cells with their CPUs and memory.
func divide(f Flavor, nodes int, settings map[string]string) ([]numa.GuestCell, error) {
	if len(settings) == 0 {
		return divideEvenly(f, nodes)
	}
	for key := range settings {
		if n, _ := strconv.Atoi(mapSpec.FindStringSubmatch(key)[2]); n >= nodes {
			return nil, invalid("%s names a NUMA cell that does not exist; %s is %d, and cells are counted from 0",
				key, nodesSpec, nodes)
		}
	}
	if nodes*2 > len(settings) {
		return nil, invalid("the server has %d NUMA cells; set the CPUs (%sN) and memory (%sN) of all cells or of none",
			nodes, cpusSpec, memSpec)
	}
	parts, taken, memory := make([]numa.GuestCell, nodes), map[int]int{}, 0
	for n := range parts {
		key := cpusSpec + strconv.Itoa(n)
		list, err := readSet(key, settings[key], f.VCPUs)
		if err != nil {
			return nil, err
		}
		for _, v := range list {
			if before, twice := taken[v]; twice {
				return nil, invalid("%s has CPU %d, which NUMA cell %d has already; assign each CPU once",
					key, v, before)
			}
			taken[v] = n
		}
		key = memSpec + strconv.Itoa(n)
		mb, err := strconv.ParseUint(strings.TrimSpace(settings[key]), 10, 31)
		if err != nil || mb == 0 {
			return nil, invalid("%s is %q; write a whole number of MiB", key, settings[key])
		}
		parts[n] = numa.GuestCell{VCPUs: list, MemoryMB: int(mb)}
		memory += int(mb)
	}
	if len(taken) != f.VCPUs {
		return nil, invalid("the NUMA cells of the server have %d CPUs together (%sN), the flavor has %d",
			len(taken), cpusSpec, f.VCPUs)
	}
	if memory != f.MemoryMB {
		return nil, invalid("the NUMA cells of the server have %d MiB together (%sN), the flavor has %d",
			memory, memSpec, f.MemoryMB)
	}
	return parts, nil
}

// divideEvenly returns equal cells.
func divideEvenly(f Flavor, nodes int) ([]numa.GuestCell, error) {
	if f.VCPUs < nodes || f.VCPUs%nodes != 0 || f.MemoryMB%nodes != 0 {
		return nil, invalid(
			"%d CPUs and %d MiB cannot be divided evenly into %d NUMA cells (%s); set each cell (%sN, %sN)",
			f.VCPUs, f.MemoryMB, nodes, nodesSpec, cpusSpec, memSpec)
	}
	parts := make([]numa.GuestCell, nodes)
	each := f.VCPUs / nodes
	for n := range parts {
		for v := range each {
			parts[n].VCPUs = append(parts[n].VCPUs, n*each+v)
		}
		parts[n].MemoryMB = f.MemoryMB / nodes
	}
	return parts, nil
}
