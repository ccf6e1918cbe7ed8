package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Aggregate is a host aggregate, as the filters need it.
type Aggregate struct {
	Name     string
	Metadata map[string]string
}

// The filters of aggregates, as in Nova.
const (
	FilterZone       Filter = "AvailabilityZoneFilter"
	FilterTenants    Filter = "AggregateMultiTenancyIsolation"
	FilterExtraSpecs Filter = "AggregateInstanceExtraSpecsFilter"
)

const (
	// ZoneKey is the metadata of an aggregate that makes it an availability zone.
	ZoneKey = "availability_zone"
	// tenantKey begins the metadata of an aggregate with the projects that may use its hosts.
	tenantKey = "filter_tenant_id"
	// AggregateSpecs begins the extra specs of a flavor that aggregates must have as metadata.
	AggregateSpecs = "aggregate_instance_extra_specs:"
)

// Aggregates are the host aggregates of a cloud.
type Aggregates struct {
	OfHost      map[string][]Aggregate // by host name
	DefaultZone string                 // of hosts without a zone
}

// Zone returns the availability zone of a host.
func (a Aggregates) Zone(host string) string {
	for _, one := range a.OfHost[host] {
		if zone := one.Metadata[ZoneKey]; zone != "" {
			return zone
		}
	}
	return a.DefaultZone
}

// AggregateDemand is what a server requires of the aggregates of its host.
type AggregateDemand struct {
	Aggregates
	Zone       string            // empty: any
	Project    string            // empty: tenants are not isolated
	ExtraSpecs map[string]string // of the flavor
}

// refuse returns why the aggregates of a host exclude the server; the reason is empty if they do not.
func (d AggregateDemand) refuse(host string) Refusal {
	if d.Zone != "" && d.Aggregates.Zone(host) != d.Zone {
		return Refusal{Filter: FilterZone, Reason: "availability zone " + d.Zone + " is requested, and the host is in zone " +
			d.Aggregates.Zone(host)}
	}
	if reason := isolated(d.OfHost[host], d.Project); reason != "" {
		return Refusal{Filter: FilterTenants, Reason: reason}
	}
	for _, key := range slices.Sorted(maps.Keys(d.ExtraSpecs)) {
		if name, is := strings.CutPrefix(key, AggregateSpecs); is {
			if reason := lacksMetadata(d.OfHost[host], name, d.ExtraSpecs[key]); reason != "" {
				return Refusal{Filter: FilterExtraSpecs, Reason: reason}
			}
		}
	}
	return Refusal{}
}

// isolated returns why a host is not for a project: its aggregates name others, and not this one.
func isolated(of []Aggregate, project string) string {
	reserved := ""
	for _, a := range of {
		for _, key := range slices.Sorted(maps.Keys(a.Metadata)) {
			if !strings.HasPrefix(key, tenantKey) || project == "" {
				continue
			}
			for tenant := range strings.SplitSeq(a.Metadata[key], ",") {
				if strings.TrimSpace(tenant) == project {
					return ""
				}
			}
			reserved = fmt.Sprintf("aggregate %s is reserved for other projects by its metadata %s", a.Name, key)
		}
	}
	return reserved
}

// lacksMetadata returns why the metadata of a host's aggregates do not meet an extra spec: one of them must.
func lacksMetadata(of []Aggregate, key, wanted string) string {
	reason := fmt.Sprintf("the flavor requires an aggregate with %s=%s, and no aggregate of the host has %s", key, wanted,
		key)
	for _, a := range of {
		for value := range strings.SplitSeq(a.Metadata[key], ",") {
			value = strings.TrimSpace(value)
			if value == "" {
				continue
			}
			if matches(value, wanted) {
				return ""
			}
			reason = fmt.Sprintf("the flavor requires an aggregate with %s=%s, and aggregate %s has %s=%s", key, wanted, a.Name,
				key, a.Metadata[key])
		}
	}
	return reason
}

// compare are Nova's operators of extra specs for numbers and texts: whether the comparison of value and operand fits.
var compare = map[string]func(order int) bool{
	"=": func(n int) bool { return n >= 0 }, "==": func(n int) bool { return n == 0 },
	"!=": func(n int) bool { return n != 0 }, ">=": func(n int) bool { return n >= 0 },
	"<=": func(n int) bool { return n <= 0 }, "<": func(n int) bool { return n < 0 },
	">": func(n int) bool { return n > 0 },
}

// matches reports whether a value of metadata meets an extra spec, which may begin with an operator of Nova: numbers
// with =, ==, !=, >=, <=; texts with s==, s!=, s>=, s>, s<=, s<; <in>, <all-in> and <or>.
func matches(value, wanted string) bool {
	words := strings.Fields(wanted)
	if len(words) == 0 {
		return value == wanted
	}
	operator, operands := words[0], words[1:]
	text, ofTexts := strings.CutPrefix(operator, "s")
	switch {
	case operator == "<or>":
		return slices.Contains(slices.DeleteFunc(slices.Clone(operands), func(w string) bool { return w == "<or>" }), value)
	case operator == "<all-in>":
		return !slices.ContainsFunc(operands, func(w string) bool { return !strings.Contains(value, w) })
	case operator == "<in>":
		return len(operands) > 0 && strings.Contains(value, operands[0])
	case ofTexts && compare[text] != nil && text != "=":
		return len(operands) > 0 && compare[text](strings.Compare(value, operands[0]))
	case !ofTexts && compare[operator] != nil && operator != "<" && operator != ">":
		return len(operands) > 0 && compareNumbers(value, operands[0], compare[operator])
	}
	return value == wanted
}

// compareNumbers compares two numbers; texts that are not numbers do not fit.
func compareNumbers(value, operand string, fits func(int) bool) bool {
	a, err := strconv.ParseFloat(value, 64)
	b, other := strconv.ParseFloat(operand, 64)
	switch {
	case err != nil || other != nil:
		return false
	case a < b:
		return fits(-1)
	case a > b:
		return fits(1)
	}
	return fits(0)
}
