package survey

import (
	"fmt"
	"slices"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// BandwidthFacts are the input of Bandwidth.
type BandwidthFacts struct {
	Agents   []bandwidth.Agent
	Roots    map[string]provider.ID // root providers by name, as far as Placement has them
	NICs     []facts.NIC
	NICsRead bool // NICs is complete
	Devices  []pci.Device
}

// Bandwidth returns the desired bandwidth providers of a host, parents before children. Those below a root that
// Placement does not have are left out. The device of an interface that does not exist has the reason in Absent.
func Bandwidth(f BandwidthFacts) []bandwidth.Device {
	var out []bandwidth.Device
	for _, a := range f.Agents {
		for _, d := range a.Providers() {
			root, known := f.Roots[d.Name.Hypervisor]
			if !known {
				continue
			}
			if d.Provider.Parent == "" {
				d.Provider.Parent = root
			}
			if f.missing(a, d.Name.Device) {
				d.Absent = fmt.Sprintf("interface %s does not exist on this host; correct %s or load its driver",
					d.Name.Device, a.Where(bandwidth.DeviceMappingsOption))
			}
			out = append(out, d)
		}
	}
	return out
}

// missing reports whether a device must be an interface of the host and does not exist. A bridge of Open vSwitch need
// not be an interface: in its userspace datapath the kernel has none for it.
func (f BandwidthFacts) missing(a bandwidth.Agent, device string) bool {
	_, found := f.nic(device)
	return a.Type == bandwidth.NICSwitch && device != "" && f.NICsRead && !found
}

func (f BandwidthFacts) nic(name string) (facts.NIC, bool) {
	i := slices.IndexFunc(f.NICs, func(n facts.NIC) bool { return n.Name == name })
	if i < 0 {
		return facts.NIC{}, false
	}
	return f.NICs[i], true
}

// InterfaceFinding is an error or a warning about an interface that the configuration names.
type InterfaceFinding struct {
	Wrong    bool   // the interface does not exist; otherwise it is a warning
	Device   string // name of the interface
	Sentence string
}

// InterfaceFindings compares the configured devices with the interfaces of the host: an interface that does not exist
// is wrong; a rate above the speed of the link, an interface without SR-IOV, and a bond whose members are configured
// too are warnings.
func InterfaceFindings(f BandwidthFacts) []InterfaceFinding {
	var out []InterfaceFinding
	for _, a := range f.Agents {
		checked := map[string]bool{}
		for _, m := range a.Mappings {
			if !checked[m.Device] {
				out = append(out, f.findings(a, m.Device)...)
			}
			checked[m.Device] = true
		}
	}
	return out
}

// findings returns the findings about one device of an agent.
func (f BandwidthFacts) findings(a bandwidth.Agent, device string) (out []InterfaceFinding) {
	mapping, rate := a.Where(a.Type.MappingsOption()), a.Where(bandwidth.BandwidthsOption)
	if f.missing(a, device) {
		return []InterfaceFinding{{Wrong: true, Device: device, Sentence: fmt.Sprintf(
			"%s: element %q: interface %s does not exist on this host; correct its name or load its driver", mapping, device,
			device)}}
	}
	nic, found := f.nic(device)
	if !found {
		return nil
	}
	warn := func(format string, args ...any) {
		out = append(out, InterfaceFinding{Device: device, Sentence: fmt.Sprintf(format, args...)})
	}
	rates := a.Bandwidths[device]
	for _, direction := range []struct {
		name string
		rate bandwidth.Rate
	}{{"egress", rates.Egress}, {"ingress", rates.Ingress}} {
		if nic.SpeedMbps > 0 && direction.rate.Amount > nic.SpeedMbps*1000 {
			warn("%s: element %q: the %s rate of %d kbit/s is above the link speed of %d kbit/s; guarantees cannot be met, "+
				"lower it", rate, device, direction.name, direction.rate.Amount, nic.SpeedMbps*1000)
		}
	}
	if a.Type == bandwidth.NICSwitch && !f.isPF(nic) {
		warn("%s: element %q: the interface is not of a PF with SR-IOV, so it has no VFs for ports; name the PF's "+
			"interface, or remove the element", mapping, device)
	}
	if _, twice := f.bandwidthOf(nic.Master); twice && f.isBond(nic.Master) {
		warn("%s: element %q: the interface is a part of the bond %s, whose bandwidth is configured too; divide the link's "+
			"bandwidth between both", rate, device, nic.Master)
	}
	return out
}

func (f BandwidthFacts) isBond(name string) bool {
	nic, found := f.nic(name)
	return found && nic.Bond
}

// bandwidthOf returns the rates of a device of any agent.
func (f BandwidthFacts) bandwidthOf(device string) (rates bandwidth.Rates, configured bool) {
	for _, a := range f.Agents {
		if rates, configured = a.Bandwidths[device]; configured {
			return rates, true
		}
	}
	return rates, false
}

func (f BandwidthFacts) isPF(nic facts.NIC) bool {
	return nic.Address != nil && slices.ContainsFunc(f.Devices, func(d pci.Device) bool {
		return d.Address == *nic.Address && d.Type == pci.Physical
	})
}
