package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
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

	Resources []hosttree.Amount `json:"resources"` // of the root provider
}

// Hosts returns the hosts by name: all root providers that do not share their inventory, and the hypervisors of compute
// that have none.
func (v *View) Hosts() []HostRow {
	services, hypervisors := map[string]Service{}, map[string]Hypervisor{}
	for _, s := range v.Services {
		services[s.Host] = s
	}
	for _, h := range v.Hypervisors {
		hypervisors[h.Name] = h
	}
	rows := map[string]*HostRow{}
	for _, placed := range v.placedHosts() {
		row := &HostRow{Host: placed.Host, Provider: placed.Provider, Conditions: []condition.Condition{},
			Devices: placed.Devices, Held: placed.Held, Resources: placed.Resources}
		rows[placed.Host] = row
		h, known := hypervisors[placed.Host]
		row.Service = h.Host
		switch {
		case !known && !v.Missing(Hypervisors):
			row.add(condition.NoHypervisor, "", "compute has no hypervisor with this name")
		case known && h.ID != placed.Provider:
			row.add(condition.OtherProvider, "", fmt.Sprintf("compute's hypervisor has the id %s", h.ID))
		}
		row.addService(services)
		row.Conditions = append(row.Conditions, placed.Conditions...)
	}
	for _, h := range v.Hypervisors {
		if rows[h.Name] == nil {
			row := &HostRow{Host: h.Name, Service: h.Host, Conditions: []condition.Condition{}}
			row.add(condition.NoProvider, "", "it has no provider in Placement")
			row.addService(services)
			rows[h.Name] = row
		}
	}
	for i := range v.Servers {
		if row := rows[v.Servers[i].Node]; row != nil {
			row.Servers++
		}
	}
	list := []HostRow{}
	for _, row := range rows {
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b HostRow) int { return cmp.Compare(a.Host, b.Host) })
	return list
}

// placedHosts returns what Placement has of hosts.
func (v *View) placedHosts() []hosttree.HostRow {
	if v.HostRows != nil {
		return v.HostRows
	}
	trees := map[provider.ID][]*Provider{}
	for i := range v.Providers {
		p := &v.Providers[i]
		trees[p.Root] = append(trees[p.Root], p)
	}
	var list []hosttree.HostRow
	for _, tree := range trees {
		if row, ok := hosttree.HostOf(tree); ok {
			list = append(list, row)
		}
	}
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
		if why == "" && p.HasTrait(hosttree.StatusDisabled) {
			why = "it has the trait " + string(hosttree.StatusDisabled)
		}
		if why != "" && !p.Shares() {
			list = append(list, OutOfService{name, strings.TrimPrefix(why, "disabled, ")})
		}
	}
	slices.SortFunc(list, func(a, b OutOfService) int { return cmp.Compare(a.Host, b.Host) })
	return list
}
