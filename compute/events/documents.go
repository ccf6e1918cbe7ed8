package events

import (
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
)

// The JSON documents of the objects. The names of servers are those of the Compute API.
type (
	serverDoc struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		Project string `json:"project_id"`
		User    string `json:"user_id"`
		Flavor  string `json:"flavor"` // its name
		Status  string `json:"status"`
		VMState string `json:"vm_state"`
		Task    string `json:"task_state"`
		Fault   string `json:"fault,omitempty"`
	}
	// adminServerDoc is a server for administrators.
	adminServerDoc struct {
		serverDoc
		Host  string `json:"host"`
		Stage string `json:"stage"` // compute's own word: the phase of the move, or the state
	}
	hostDoc struct {
		Host           string                `json:"host"`
		Provider       string                `json:"provider"`
		State          string                `json:"state"`  // up, down
		Status         string                `json:"status"` // enabled, disabled
		DisabledReason string                `json:"disabled_reason,omitempty"`
		ForcedDown     bool                  `json:"forced_down,omitempty"` // an operator has declared the host dead
		Down           string                `json:"hypervisor_down,omitempty"`
		NotFollowing   bool                  `json:"not_following,omitempty"` // its agent does not follow the assignments
		Reports        int64                 `json:"reports"`                 // how often its report has changed
		Conditions     []condition.Condition `json:"conditions"`
	}
	deviceDoc struct {
		Host     string `json:"host"`
		Address  string `json:"address"`
		Vendor   string `json:"vendor_id"`
		Product  string `json:"product_id"`
		Type     string `json:"dev_type"`
		Class    string `json:"resource_class"`
		Provider string `json:"provider,omitempty"`
		State    string `json:"state"`
		Holder   string `json:"holder,omitempty"`
		Disabled bool   `json:"disabled,omitempty"`
		Spent    bool   `json:"spent,omitempty"`
		Present  *bool  `json:"present,omitempty"` // false: the host does not offer the device now
	}
)

// serverObject returns a server. Callers of its project do not see its host.
func serverObject(s lifecycle.Server) *eventstream.Object {
	doc := serverDoc{ID: s.ID, Name: s.Name, Project: s.Project, User: s.User, Flavor: s.Shown().Flavor.Name,
		Status: s.Status(), VMState: s.VMState(), Task: s.TaskState()}
	if s.Fault != nil {
		doc.Fault = s.Fault.Message
	}
	host := s.Shown().Host
	return &eventstream.Object{Host: host, Project: s.Project, Own: doc,
		Data: adminServerDoc{serverDoc: doc, Host: host, Stage: s.Stage()}}
}

// hostDocOf returns the document of a host that is up and enabled. reports is how often its report has changed.
func hostDocOf(h schedule.Host, reports int64) hostDoc {
	return hostDoc{Host: h.Name, Provider: string(h.Provider), State: "up", Status: "enabled", Down: h.Down,
		Reports: reports, Conditions: append([]condition.Condition{}, h.Conditions...)}
}

// deviceObject returns a device of a host.
func deviceObject(host string, d pci.Offered) (eventstream.Key, *eventstream.Object) {
	address := d.Address.String()
	doc := deviceDoc{Host: host, Address: address, Vendor: d.Vendor, Product: d.Product, Type: string(d.Type),
		Class: string(d.ResourceClass), Provider: string(d.Provider), State: string(d.State), Holder: string(d.Holder),
		Disabled: d.Disabled, Spent: d.Spent}
	if d.Gone {
		doc.Present = new(false)
	}
	return eventstream.Key{Kind: Device, ID: host + "/" + address}, &eventstream.Object{Host: host,
		Classes: []string{string(d.ResourceClass)}, Data: doc}
}
