package pci

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The families of values that every device has, as far as the host reports them. Devices that belong together have a
// value of a family in common. Other families are the operator's properties.
const (
	RootFamily   = "pcie_root"   // Device.Root
	SwitchFamily = "pcie_switch" // the ports of PCIe switches above the device
	GroupFamily  = "iommu_group"
	NodeFamily   = "numa_node"
	CardFamily   = "pf" // the PF of a VF, and a PF itself
)

// builtInFamilies are the families of every device.
var builtInFamilies = []string{RootFamily, SwitchFamily, GroupFamily, NodeFamily, CardFamily}

// reservedFamilies are the names that a property cannot have.
var reservedFamilies = append([]string{"socket"}, builtInFamilies...)

// Properties are the values that a rule gives to its devices, by the operator's name of the property. The values of
// each are sorted.
type Properties map[string][]string

var (
	propertyName  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
	propertyValue = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// Values returns the values of a device in a family, sorted; none if it has no value there.
func (d Offered) Values(family string) []string {
	var ports []Address
	switch family {
	case RootFamily:
		ports = []Address{d.Root()}
	case SwitchFamily:
		if len(d.Bridges) > 1 {
			ports = d.Bridges[1:]
		}
	case GroupFamily:
		if d.IOMMUGroup == NoGroup {
			return nil
		}
		return []string{strconv.Itoa(d.IOMMUGroup)}
	case NodeFamily:
		if d.NUMANode == NoNUMA {
			return nil
		}
		return []string{strconv.Itoa(d.NUMANode)}
	case CardFamily:
		if d.Parent != nil || d.Type == Physical {
			ports = []Address{d.Device.Holder()}
		}
	default:
		return d.Properties[family]
	}
	var values []string
	for _, p := range ports {
		values = append(values, p.String())
	}
	slices.Sort(values)
	return values
}

// readProperties reads the properties of a rule: an object of texts, in each of which commas separate values.
func (r *Rule) readProperties(o object) error {
	raw, there := o.values["properties"]
	if !there {
		return nil
	}
	var texts map[string]string
	if err := json.Unmarshal(raw, &texts); err != nil || texts == nil {
		return refuse("device_spec: properties must be an object of texts, such as {\"fabric\": \"p4-0,p8-0\"}; it is %s",
			clip(string(raw)))
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if slices.Contains(reservedFamilies, name) {
			return refuse("device_spec: properties has %q, which the host itself reports; give the property another name", name)
		}
		if !propertyName.MatchString(name) {
			return refuse("device_spec: properties has the name %q; write a lower-case letter, then at most 31 lower-case "+
				"letters, digits and underscores", clip(name))
		}
		values, err := propertyValues(name, texts[name])
		if err != nil {
			return err
		}
		if r.Properties == nil {
			r.Properties = Properties{}
		}
		r.Properties[name] = values
	}
	return nil
}

// propertyValues parses the values of a property.
func propertyValues(name, text string) (values []string, err error) {
	for value := range strings.SplitSeq(text, ",") {
		value = strings.TrimSpace(value)
		if !propertyValue.MatchString(value) {
			return nil, refuse("device_spec: properties: %s has the value %q; write at most 64 letters, digits, dots, "+
				"hyphens and underscores, the first a letter or digit, and commas between several values", name, clip(value))
		}
		values = append(values, value)
	}
	slices.Sort(values)
	return slices.Compact(values), nil
}

// texts returns the properties as in device_spec.
func (p Properties) texts() map[string]string {
	out := map[string]string{}
	for name, values := range p {
		out[name] = strings.Join(values, ",")
	}
	return out
}
