package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet/read"
)

// The times of polling a service of OpenStack, which has no events.
const (
	pollEvery   = 2 * time.Second  // the least time between two reads; reads take a tenth of the time at most
	pollAll     = 10 * time.Minute // after which all servers are read, not only those that have changed
	pollOverlap = time.Minute      // how far clocks of Nova's hosts may differ
)

// polledObject is an object as an event shows it.
type polledObject struct {
	kind, project, host string
	object              json.RawMessage
}

// objects are the objects of a service by their ids, with the fields of Berth's events.
type objects map[string]polledObject

// looker reads all objects of a service of OpenStack, from those that it has returned before.
type looker func(ctx context.Context, before objects) (objects, error)

// polledKinds are the kinds that are polled.
var polledKinds = []string{"server", "port"}

// changes returns the events that lead from one state to another, by id.
func changes(before, after objects) (events []eventstream.Event) {
	add := func(action, id string, o polledObject) {
		events = append(events, eventstream.Event{Action: action, Kind: o.kind, ID: id, Time: time.Now(), Object: o.object})
	}
	for id, o := range after {
		switch old, known := before[id]; {
		case !known:
			add(eventstream.Created, id, o)
		case string(old.object) != string(o.object):
			add(eventstream.Changed, id, o)
		}
	}
	for id, o := range before {
		if _, remains := after[id]; !remains {
			add(eventstream.Deleted, id, o)
		}
	}
	slices.SortFunc(events, func(a, b eventstream.Event) int { return cmp.Compare(a.ID, b.ID) })
	return events
}

// serverPoll reads the servers of Nova: at first and every pollAll all of them, else those that have changed since a
// minute before the newest change.
type serverPoll struct {
	client     *compute.Client
	negotiated bool
	whole      time.Time // when all were read
	newest     time.Time // the newest change, by the clocks of Nova
}

// read returns all servers.
func (p *serverPoll) read(ctx context.Context, before objects) (objects, error) {
	if !p.negotiated {
		if _, err := read.Negotiate(ctx, p.client); err != nil {
			return nil, err
		}
		p.negotiated = true
	}
	began, query := time.Now(), compute.ListServers{AllProjects: true}
	all := before == nil || p.newest.IsZero() || began.Sub(p.whole) > pollAll
	if !all {
		query.ChangedSince = p.newest.Add(-pollOverlap)
	}
	list, err := p.client.Servers(ctx, query)
	if err != nil {
		return nil, err
	}
	now := objects{}
	if all {
		p.whole = began
	} else {
		maps.Copy(now, before)
	}
	for _, s := range list {
		if s.Updated.After(p.newest) {
			p.newest = s.Updated.Time
		}
		if s.Status == "DELETED" {
			delete(now, s.ID)
		} else if now[s.ID], err = serverObject(s); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// serverObject returns a server as an event shows it.
func serverObject(s compute.Server) (polledObject, error) {
	of := read.Server(s)
	text, err := json.Marshal(struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		Project string `json:"project_id"`
		User    string `json:"user_id"`
		Flavor  string `json:"flavor"`
		Status  string `json:"status"`
		VMState string `json:"vm_state"`
		Task    string `json:"task_state"`
		Fault   string `json:"fault,omitempty"`
		Host    string `json:"host"`
	}{of.ID, of.Name, of.Project, of.User, of.Flavor.Name, of.Status, of.VMState, of.TaskState, of.Fault, of.Host})
	return polledObject{"server", of.Project, of.Host, text}, fault.Wrap(fault.Internal, err)
}

// portFields are the fields of ports that events show.
const portFields = "id name project_id network_id device_id device_owner status admin_state_up mac_address fixed_ips " +
	"binding:vnic_type qos_policy_id binding:host_id binding:vif_type"

// readPorts reads all ports of Neutron.
func readPorts(ctx context.Context, client *network.Client) (objects, error) {
	list, err := client.Ports(ctx, url.Values{"fields": strings.Fields(portFields)})
	if err != nil {
		return nil, err
	}
	now := objects{}
	for _, p := range list {
		text, err := json.Marshal(struct {
			ID       string            `json:"id"`
			Name     string            `json:"name"`
			Project  string            `json:"project_id"`
			Network  string            `json:"network_id"`
			Device   string            `json:"device_id"`
			Owner    string            `json:"device_owner"`
			Status   string            `json:"status"`
			AdminUp  bool              `json:"admin_state_up"`
			MAC      string            `json:"mac_address"`
			FixedIPs []network.FixedIP `json:"fixed_ips"`
			VNIC     string            `json:"binding:vnic_type"`
			Policy   string            `json:"qos_policy_id,omitempty"`
			Host     string            `json:"binding:host_id"`
			VIF      string            `json:"binding:vif_type"`
		}{p.ID, p.Name, p.Project, p.Network, p.Device, p.DeviceOwner, p.Status, p.AdminUp, p.MAC, p.FixedIPs, p.VNIC,
			p.Policy, p.Host, p.VIF})
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err)
		}
		now[p.ID] = polledObject{"port", p.Project, p.Host, text}
	}
	return now, nil
}
