package networking

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

const noNetwork = "compute has no network service; set [neutron] endpoint_override to use one"

// interfaceRoutes returns the paths of the ports of a server.
func interfaceRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/os-interface": {
			http.MethodGet:  s.OfServer(policies.ListInterfaces, s.listInterfaces),
			http.MethodPost: s.OfServer(policies.AttachInterface, request.UnlessLocked(s.attachInterface)),
		},
		"/v2.1/servers/{id}/os-interface/{port}": {
			http.MethodGet:    s.OfServer(policies.ShowInterface, s.showInterface),
			http.MethodDelete: s.OfServer(policies.DetachInterface, request.UnlessLocked(s.detachInterface)),
		},
	}
}

// listInterfaces is GET /v2.1/servers/{id}/os-interface: the ports of a server as the network service has them.
func (s *Handlers) listInterfaces(c *request.Call, found lifecycle.Server) error {
	list, err := s.interfaces(c, found)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"interfaceAttachments": list})
}

func (s *Handlers) showInterface(c *request.Call, found lifecycle.Server) error {
	list, err := s.interfaces(c, found)
	if err != nil {
		return err
	}
	port := c.R.PathValue("port")
	at := slices.IndexFunc(list, func(i compute.Interface) bool { return i.Port == port })
	if at < 0 {
		return fault.New(fault.NotFound, "Instance %s does not have a port with id %s", found.ID, port)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"interfaceAttachment": list[at]})
}

// interfaces returns the ports of a server, in the order of the server.
func (s *Handlers) interfaces(c *request.Call, of lifecycle.Server) ([]compute.Interface, error) {
	list := []compute.Interface{}
	if s.Networks == nil || len(of.Ports) == 0 {
		return list, nil
	}
	ports, err := s.Networks.Ports(c.R.Context(), url.Values{"device_id": {of.ID}})
	if err != nil {
		return nil, err
	}
	for _, own := range of.Ports {
		at := slices.IndexFunc(ports, func(p network.Port) bool { return p.ID == own.ID })
		if at < 0 {
			continue // deleted in the network service
		}
		p := ports[at]
		one := compute.Interface{Port: p.ID, Network: p.Network, MAC: p.MAC, PortState: p.Status,
			FixedIPs: []compute.InterfaceAddress{}}
		for _, ip := range p.FixedIPs {
			one.FixedIPs = append(one.FixedIPs, compute.InterfaceAddress(ip))
		}
		if c.Has(compute.DeviceTagsShown) {
			one.Tagged = &compute.Tagged{Tag: request.OrNull(own.Tag)}
		}
		list = append(list, one)
	}
	return list, nil
}

// portChangeTime is how long a request waits for a change of a port to end, and portChangePoll how often it looks.
const (
	portChangeTime = 30 * time.Second
	portChangePoll = 20 * time.Millisecond
)

// attachInterface is POST /v2.1/servers/{id}/os-interface. It responds when the port is bound. The agent of the host
// attaches it to the guest then.
func (s *Handlers) attachInterface(c *request.Call, found lifecycle.Server) error {
	if s.Networks == nil {
		return request.NotImplemented("%s", noNetwork)
	}
	networks := NewFinder(s, c, attachingPorts)
	want, err := readAttachment(c, networks)
	if err != nil {
		return err
	}
	change := lifecycle.PortAttachRequested{ID: s.NewID(), Request: want, Amounts: networks.amounts[want.Port],
		By: request.Caller(c)}
	if err := s.Conductor.ChangePort(c.R.Context(), found.ID, change); err != nil {
		return err
	}
	done, err := s.awaitPortChange(c, found.ID, change.ID)
	if err != nil {
		return err
	}
	outcome, known, _ := done.PortOutcome(change.ID)
	switch {
	case !known:
		return fault.New(fault.Conflict, "the port is not attached: server %s has ended meanwhile", found.ID)
	case outcome.Refused != "":
		return fault.New(fault.Invalid, "%s", outcome.Refused)
	}
	list, err := s.interfaces(c, done)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(i compute.Interface) bool { return i.Port == outcome.Port })
	if at < 0 {
		return fault.New(fault.Conflict, "the port of server %s was detached meanwhile", found.ID)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"interfaceAttachment": list[at]})
}

const attachingPorts = "Attaching ports"

// readAttachment reads the body, and checks that the caller may use the port or network. An empty body means the only
// network of the project.
func readAttachment(c *request.Call, networks NetworkFinder) (want lifecycle.NetworkRequest, err error) {
	o, others, err := c.Object("interfaceAttachment")
	if err != nil {
		return want, err
	}
	if err := c.RefuseOthers("interfaceAttachment", others); err != nil {
		return want, err
	}
	o.Text("port_id", &want.Port, 255)
	o.Text("net_id", &want.Network, 255)
	o.Text("tag", &want.Tag, 60)
	var addresses []struct {
		Address string `json:"ip_address"`
	}
	if o.Decode("fixed_ips", &addresses, "a list of one object with the key ip_address") && len(addresses) > 0 {
		want.FixedIP = addresses[0].Address
	}
	switch {
	case len(addresses) > 1:
		o.Invalid("fixed_ips", "it has %d addresses; one is possible", len(addresses))
	case want.Port != "" && want.Network != "":
		o.Invalid("port_id", "give either port_id or net_id")
	case want.Port != "" || want.Network != "":
		checkNetwork(o, want)
	case want.FixedIP != "":
		o.Invalid("fixed_ips", "an address needs net_id")
	}
	if err := o.Finish(); err != nil {
		return want, err
	}
	if want.Port != "" || want.Network != "" {
		return networks.findNetwork(c, want)
	}
	list, err := networks.automaticNetwork(c)
	if err == nil && len(list) == 0 {
		err = fault.New(fault.Invalid, "the project has no network; give net_id or port_id")
	}
	if err != nil {
		return want, err
	}
	return list[0], nil
}

// awaitPortChange waits until the change of a port has ended, and returns the server. A change waits for those before
// it; the time limit begins again when one of them has ended.
func (s *Handlers) awaitPortChange(c *request.Call, id, change string) (lifecycle.Server, error) {
	poll := time.NewTicker(portChangePoll)
	defer poll.Stop()
	limit := time.NewTimer(portChangeTime)
	defer limit.Stop()
	performed := "" // the id of the change that was performed at the last look
	for {
		now, err := s.Store.Read(c.R.Context(), id)
		if err != nil {
			return now, err
		}
		if _, _, ended := now.PortOutcome(change); ended {
			return now, nil
		}
		if now.PortChange != nil && now.PortChange.ID != performed {
			performed = now.PortChange.ID
			limit.Reset(portChangeTime)
		}
		select {
		case <-c.R.Context().Done():
			return now, c.R.Context().Err()
		case <-limit.C:
			return now, fault.New(fault.Unavailable, "the port is not attached yet; it is tried until it is attached "+
				"or refused, and `berth server why %s` shows the reason", id)
		case <-poll.C:
		}
	}
}

func hasPort(s lifecycle.Server, id string) bool {
	return slices.ContainsFunc(s.Ports, func(p lifecycle.Port) bool { return p.ID == id })
}

// detachInterface is DELETE /v2.1/servers/{id}/os-interface/{port}. It responds as soon as the request is recorded.
func (s *Handlers) detachInterface(c *request.Call, found lifecycle.Server) error {
	port := c.R.PathValue("port")
	if !hasPort(found, port) {
		return fault.New(fault.NotFound, "Port %s is not attached to instance %s", port, found.ID)
	}
	change := lifecycle.PortDetachRequested{ID: s.NewID(), Port: port, By: request.Caller(c)}
	if err := s.Conductor.ChangePort(c.R.Context(), found.ID, change); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusAccepted)
}
