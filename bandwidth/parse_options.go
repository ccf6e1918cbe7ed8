package bandwidth

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// Mapping connects a physical network to a device: a bridge or an interface.
type Mapping struct{ Physnet, Device string }

// Rate is an amount in kilobits or kilopackets per second. The zero value is a rate that is not set.
type Rate struct {
	Amount int
	Set    bool
}

// Rates are the rates of both directions, as the guest sees them.
type Rates struct{ Egress, Ingress Rate }

// ParseMappings parses elements physnet:device of bridge_mappings or physical_device_mappings. With one, a physical
// network has at most one device, and a device at most one physical network. There is one error for each wrong element.
func ParseMappings(elements []string, one bool) (list []Mapping, wrong []error) {
	for _, element := range elements {
		fields, err := split(element, 2, "physnet:device")
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		m := Mapping{Physnet: fields[0], Device: fields[1]}
		switch {
		case m.Physnet == "":
			wrong = append(wrong, invalid(element, "the physical network is empty; write physnet:device"))
		case m.Device == "":
			wrong = append(wrong, invalid(element, "the device is empty; write physnet:device"))
		case slices.Contains(list, m):
			wrong = append(wrong, invalid(element, "this mapping occurs twice; remove one"))
		case one && slices.ContainsFunc(list, func(o Mapping) bool { return o.Physnet == m.Physnet }):
			wrong = append(wrong, invalid(element, "physical network %s is mapped twice; remove one of the mappings",
				m.Physnet))
		case one && slices.ContainsFunc(list, func(o Mapping) bool { return o.Device == m.Device }):
			wrong = append(wrong, invalid(element, "device %s is mapped twice; remove one of the mappings", m.Device))
		default:
			list = append(list, m)
		}
	}
	return list, wrong
}

// ParseBandwidths parses elements device:egress:ingress of resource_provider_bandwidths, in kilobits per second. There
// is one error for each wrong element.
func ParseBandwidths(elements []string) (map[string]Rates, []error) {
	return parseRates(elements, "device:egress:ingress", "")
}

// ParseDirectedPacketRates parses elements hypervisor:egress:ingress of
// resource_provider_packet_processing_with_direction, in kilopackets per second. An empty hypervisor means host. There
// is one error for each wrong element.
func ParseDirectedPacketRates(elements []string, host string) (map[string]Rates, []error) {
	return parseRates(elements, "hypervisor:egress:ingress", host)
}

// ParsePacketRates parses elements hypervisor:rate of resource_provider_packet_processing_without_direction, in
// kilopackets per second. An empty hypervisor means host. There is one error for each wrong element.
func ParsePacketRates(elements []string, host string) (map[string]Rate, []error) {
	out, wrong := map[string]Rate{}, []error(nil)
	for _, element := range elements {
		name, rates, err := parseRateFields(element, "hypervisor:rate", host)
		if err == nil {
			if _, twice := out[name]; twice {
				err = invalid(element, "%s has a rate already; remove one of the elements", name)
			}
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		out[name] = rates[0]
	}
	return out, wrong
}

// ParseHypervisors parses elements device:hypervisor of resource_provider_hypervisors. There is one error for each
// wrong element.
func ParseHypervisors(elements []string) (map[string]string, []error) {
	out, wrong := map[string]string{}, []error(nil)
	for _, element := range elements {
		fields, err := split(element, 2, "device:hypervisor")
		if err == nil && fields[0] == "" {
			err = invalid(element, "the device is empty; write device:hypervisor")
		}
		if _, twice := out[at(fields, 0)]; err == nil && twice {
			err = invalid(element, "device %s has a hypervisor already; remove one of the elements", fields[0])
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		out[fields[0]] = fields[1]
	}
	return out, wrong
}

func parseRates(elements []string, form, host string) (map[string]Rates, []error) {
	out, wrong := map[string]Rates{}, []error(nil)
	for _, element := range elements {
		name, rates, err := parseRateFields(element, form, host)
		if err == nil {
			if _, twice := out[name]; twice {
				err = invalid(element, "%s has rates already; remove one of the elements", name)
			}
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		out[name] = Rates{Egress: rates[0], Ingress: rates[1]}
	}
	return out, wrong
}

// parseRateFields parses an element of a name and rates. An element without a colon has only a name. An empty name is
// replaced by host; without host it is an error.
func parseRateFields(element, form, host string) (name string, rates []Rate, err error) {
	count := strings.Count(form, ":") + 1
	if !strings.Contains(element, ":") {
		element += strings.Repeat(":", count-1)
	}
	fields, err := split(element, count, form)
	if err != nil {
		return "", nil, err
	}
	if name = fields[0]; name == "" {
		name = host
	}
	if name == "" {
		return "", nil, invalid(element, "the device is empty; write %s", form)
	}
	for _, field := range fields[1:] {
		if field == "" {
			rates = append(rates, Rate{})
			continue
		}
		n, err := number(field)
		if err != nil {
			return "", nil, invalid(element, "the rate %q is not a whole number from 0 to %d; write %s", field,
				resource.MaxAmount, form)
		}
		rates = append(rates, Rate{Amount: n, Set: true})
	}
	return name, rates, nil
}

// split splits an element into as many fields as its form has.
func split(element string, count int, form string) ([]string, error) {
	fields := strings.Split(element, ":")
	if len(fields) != count {
		return nil, invalid(element, "it has %d fields separated by colons and needs %d; write %s", len(fields), count,
			form)
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields, nil
}

func at(fields []string, i int) string {
	if i < len(fields) {
		return fields[i]
	}
	return ""
}

// number parses a whole number that Placement accepts: decimal digits, from 0 to resource.MaxAmount.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err
}

// invalid returns the fault of one element.
func invalid(element, format string, args ...any) error {
	return fault.New(fault.Invalid, "element %q: %s", element, fmt.Sprintf(format, args...))
}
