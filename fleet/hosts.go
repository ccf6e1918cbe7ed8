package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// HostRow is a root provider with its compute service, or a compute service without a provider.
type HostRow struct {
	Host       string                `json:"host"`    // the root provider
	Service    string                `json:"service"` // host of its compute service; empty: none
	Provider   provider.ID           `json:"provider,omitempty"`
	State      string                `json:"state"` // of the service
	Zone       string                `json:"zone,omitempty"`
	Servers    int                   `json:"servers"`
	Devices    int                   `json:"devices"` // providers of PCI devices, slots and mediated devices
	Held       int                   `json:"held"`    // those of which something is allocated
	Conditions []condition.Condition `json:"conditions"`

	Resources []Amount `json:"resources"` // of the root provider
}

// Amount is how much of a class a provider has and how much is used.
type Amount struct {
	Class    resource.Class `json:"resource_class"`
	Used     int            `json:"used"`
	Capacity int            `json:"capacity"`
}

// Hosts returns the hosts by name: all root providers that do not share their inventory, and the hypervisors of compute
// that have none.
func (v *View) Hosts() []HostRow {
	services, hypervisors := map[string]Service{}, map[string]Hypervisor{}
	for _, s := range v.Services {
		services[s.Host] = s
	}
	rows := map[string]*HostRow{}
	for _, h := range v.Hypervisors {
		hypervisors[h.Name] = h
		if v.Root[h.Name] == nil {
			rows[h.Name] = &HostRow{Host: h.Name, Service: h.Host, Conditions: []condition.Condition{}}
			rows[h.Name].add(condition.NoProvider, "", "it has no provider in Placement")
		}
	}
	for name, p := range v.Root {
		if p.Shares() {
			continue
		}
		row := &HostRow{Host: name, Provider: p.ID, Conditions: []condition.Condition{}, Resources: p.amounts()}
		rows[name] = row
		h, known := hypervisors[name]
		row.Service = h.Host
		switch {
		case !known && !v.Missing(Hypervisors):
			row.add(condition.NoHypervisor, "", "compute has no hypervisor with this name")
		case known && h.ID != p.ID:
			row.add(condition.OtherProvider, "", fmt.Sprintf("compute's hypervisor has the id %s", h.ID))
		}
	}
	for _, row := range rows {
		row.addService(services)
	}
	for i := range v.Servers {
		if row := rows[v.Servers[i].Node]; row != nil {
			row.Servers++
		}
	}
	v.countDevices(rows)
	list := []HostRow{}
	for _, row := range rows {
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b HostRow) int { return cmp.Compare(a.Host, b.Host) })
	return list
}

// add adds a condition.
func (row *HostRow) add(kind condition.Kind, subject, text string) {
	row.Conditions = append(row.Conditions, condition.New(kind, subject, text))
}

// addService adds the state of the compute service.
func (row *HostRow) addService(services map[string]Service) {
	s, known := services[row.Service]
	if !known {
		row.State = "no service"
		return
	}
	row.State, row.Zone = s.State, s.Zone
	if s.ForcedDown {
		row.State = "down, forced"
	}
	if s.Status == "disabled" {
		row.State += ", disabled"
		if s.Reason != "" {
			row.add(condition.Disabled, "", "disabled: "+s.Reason)
		}
	}
}

// OutOfService is a host that compute would choose for no server now.
type OutOfService struct{ Host, Why string }

// StatusDisabled is the trait of the root providers of hosts whose compute service is disabled.
const StatusDisabled resource.Trait = "COMPUTE_STATUS_DISABLED"

// OutOfService returns the hosts of Placement that compute would choose for no server now, by name: their service is
// disabled or not up. If the services were not read, only the trait of disabled hosts is known.
func (v *View) OutOfService() (list []OutOfService) {
	services, hosts := map[string]Service{}, map[string]string{}
	for _, s := range v.Services {
		services[s.Host] = s
	}
	for _, h := range v.Hypervisors {
		hosts[h.Name] = h.Host
	}
	for name, p := range v.Root {
		row := HostRow{Service: hosts[name]}
		row.addService(services)
		why := strings.Join(append([]string{strings.TrimPrefix(row.State, "up, ")}, condition.Texts(row.Conditions)...), ", ")
		if row.State == "up" || v.Missing(Services, Hypervisors) {
			why = ""
		}
		if why == "" && p.HasTrait(StatusDisabled) {
			why = "it has the trait " + string(StatusDisabled)
		}
		if why != "" && !p.Shares() {
			list = append(list, OutOfService{name, strings.TrimPrefix(why, "disabled, ")})
		}
	}
	slices.SortFunc(list, func(a, b OutOfService) int { return cmp.Compare(a.Host, b.Host) })
	return list
}

// countDevices counts the devices of hosts, and names inventories that are over capacity.
func (v *View) countDevices(rows map[string]*HostRow) {
	for i := range v.Providers {
		p := &v.Providers[i]
		row := rows[v.HostOf(p)]
		if row == nil {
			continue
		}
		for _, a := range p.amounts() {
			if a.Used > a.Capacity {
				row.add(condition.OverCapacity, p.Name, fmt.Sprintf("%s: %d of %d %s are allocated", p.Name, a.Used,
					a.Capacity, a.Class))
			}
		}
		switch kind, _ := v.KindOf(p); kind {
		case PCI, Slot, Mediated:
			row.Devices++
			if len(p.Held) > 0 {
				row.Held++
			}
		}
	}
}

// amounts returns the inventories of a provider with their use, by class.
func (p *Provider) amounts() []Amount {
	list := []Amount{}
	for class, inventory := range p.Inventories {
		list = append(list, Amount{class, p.Used(class), inventory.Capacity()})
	}
	slices.SortFunc(list, func(a, b Amount) int { return cmp.Compare(a.Class, b.Class) })
	return list
}
