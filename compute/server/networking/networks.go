package networking

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// RequestedNetworks is the value of `networks`: a list, or auto.
type RequestedNetworks struct {
	auto bool
	list []lifecycle.NetworkRequest
}

// ReadNetworks reads networks. Before 2.37 a missing or empty list means auto.
func ReadNetworks(o *edge.Object, v compute.Version) (want RequestedNetworks) {
	raw, given := o.Keys["networks"]
	delete(o.Keys, "networks")
	var word string
	isWord := json.Unmarshal(raw, &word) == nil && !edge.IsNull(raw)
	required := v.Has(compute.NetworksRequired)
	switch {
	case !given && required:
		o.Invalid("networks", "it is missing, and required since %s; give \"none\", \"auto\" or a list",
			compute.NetworksRequired)
	case !required && (!given || slices.Contains([]string{"[]", "null"}, string(raw))):
		want.auto = true
	case required && isWord && (word == compute.NetworksNone || word == compute.NetworksAuto):
		want.auto = word == compute.NetworksAuto
	case isWord && !required:
		o.Invalid("networks", "the words none and auto are valid since version %s, and this request has version %s",
			compute.NetworksRequired, v)
	default:
		want.list = readNetworkList(o, raw, v)
	}
	return want
}

// readNetworkList reads a list of networks.
func readNetworkList(o *edge.Object, raw json.RawMessage, v compute.Version) (list []lifecycle.NetworkRequest) {
	var entries []map[string]*string
	if json.Unmarshal(raw, &entries) != nil || len(entries) == 0 {
		o.Invalid("networks", "it must be \"none\", \"auto\" or a list of objects with the key uuid or port, not %s",
			edge.Clip(string(raw)))
		return nil
	}
	if len(entries) > maxRequested {
		o.Invalid("networks", "it has %d elements, more than %d", len(entries), maxRequested)
		return nil
	}
	for _, entry := range entries {
		var r lifecycle.NetworkRequest
		for key, value := range entry {
			text := ""
			if value != nil {
				text = *value
			}
			switch {
			case key == "uuid":
				r.Network = text
			case key == "port":
				r.Port = text
			case key == "fixed_ip":
				r.FixedIP = text
			case key == "tag" && hasDeviceTags(v):
				r.Tag = text
			default:
				o.Invalid("networks", "there is no key %q in an entry at version %s", edge.Clip(key), v)
			}
		}
		checkNetwork(o, r)
		list = append(list, r)
	}
	return list
}

// checkNetwork checks one entry alone.
func checkNetwork(o *edge.Object, r lifecycle.NetworkRequest) {
	at, err := netip.ParseAddr(r.FixedIP)
	switch {
	case r.Port == "" && r.Network == "":
		o.Invalid("networks", "an entry has neither uuid nor port; give one of them")
	case r.Port != "" && !request.IsUUID(r.Port), r.Port == "" && !request.IsUUID(r.Network):
		o.Invalid("networks", "%q is not a UUID", edge.Clip(r.Port+r.Network))
	case r.FixedIP != "" && r.Port != "":
		o.Invalid("networks", "fixed_ip of port %s cannot be set; set it with `openstack port set`", r.Port)
	case r.FixedIP != "" && (err != nil || at.Zone() != ""):
		o.Invalid("networks", "%q is not an IP address", edge.Clip(r.FixedIP))
	case r.Tag != "" && !request.TagText.MatchString(r.Tag):
		o.Invalid("networks", "%q is not a valid tag", edge.Clip(r.Tag))
	}
}

// NetworkFinder finds the networks and ports that a request names.
type NetworkFinder struct {
	Networks Networks
	refused  string // the operation, if its version is too old for ports with a resource request; else empty
	// what ports request of each resource class, by the id of the port
	amounts map[string]resource.Amounts
}

// FindNetworks returns the networks of a server, after it has checked that the caller may use them. Without a network
// service a server has none.
func (s NetworkFinder) FindNetworks(c *request.Call, want RequestedNetworks, count int) ([]lifecycle.NetworkRequest,
	error) {
	switch {
	case s.Networks == nil && len(want.list) > 0:
		return nil, fault.New(fault.Invalid, "Invalid input for server.networks: compute has no network service, so "+
			"it must be \"none\" or \"auto\"; set [neutron] endpoint_override to use one")
	case s.Networks == nil:
		return nil, nil
	case want.auto:
		return s.automaticNetwork(c)
	}
	used := map[string]bool{}
	for i, r := range want.list {
		if count > 1 && (r.Port != "" || r.FixedIP != "") {
			return nil, fault.New(fault.Invalid, "Unable to launch multiple instances with a single configured "+
				"port ID or fixed IP; launch the instances one by one with different ports")
		}
		if r.Port != "" && used[r.Port] {
			return nil, fault.New(fault.Invalid, "port %s is given twice; give each port once", r.Port)
		}
		used[r.Port] = true
		var err error
		if want.list[i], err = s.findNetwork(c, r); err != nil {
			return nil, err
		}
	}
	return want.list, nil
}

// automaticNetwork returns the only network of the caller's project; none if there is none.
func (s NetworkFinder) automaticNetwork(c *request.Call) ([]lifecycle.NetworkRequest, error) {
	all, err := s.Networks.Networks(c.R.Context(), url.Values{})
	if err != nil {
		return nil, err
	}
	shared, err := s.Networks.SharedWith(c.R.Context(), network.SharedNetwork, c.Who.Project)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(n network.Network) bool {
		return n.External || len(n.Subnets) == 0 ||
			!n.Shared && n.Project != c.Who.Project && !slices.Contains(shared, n.ID)
	})
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return []lifecycle.NetworkRequest{{Network: all[0].ID}}, s.checkPolicy(c, all[0])
	}
	return nil, fault.New(fault.Conflict, "Multiple possible networks found, use a Network ID to be more specific.")
}

// isVisible reports whether the caller may use a network that was found.
func (s NetworkFinder) isVisible(c *request.Call, found []network.Network) (bool, error) {
	if len(found) == 0 {
		return false, nil
	}
	if found[0].Shared || found[0].External || found[0].Project == c.Who.Project || c.Who.IsAdmin() {
		return true, nil
	}
	shared, err := s.Networks.SharedWith(c.R.Context(), network.SharedNetwork, c.Who.Project)
	return slices.Contains(shared, found[0].ID), err
}

// findNetwork checks one entry against the network service.
func (s NetworkFinder) findNetwork(c *request.Call, r lifecycle.NetworkRequest) (lifecycle.NetworkRequest, error) {
	if r.Port != "" {
		p, err := s.Networks.Port(c.R.Context(), r.Port)
		hidden := err == nil && p.Project != c.Who.Project && !c.Who.IsAdmin()
		switch {
		case hidden || fault.Is(err, fault.NotFound):
			return r, fault.New(fault.Invalid, "Port id %s could not be found.", r.Port)
		case err != nil:
			return r, err
		case p.Device != "":
			return r, fault.New(fault.Conflict, "Port %s is still in use.", r.Port)
		case len(p.FixedIPs) == 0:
			return r, fault.New(fault.Invalid, "Port %s requires a FixedIP in order to be used.", r.Port)
		}
		if err := s.checkPort(p); err != nil {
			return r, err
		}
		r.Network = p.Network
		s.countAmounts(p)
		return r, portrequest.CheckVNICType(p.ID, p.VNIC)
	}
	found, err := s.Networks.Networks(c.R.Context(), url.Values{"id": {r.Network}})
	if err != nil {
		return r, err
	}
	visible, err := s.isVisible(c, found)
	switch {
	case err != nil:
		return r, err
	case !visible:
		return r, fault.New(fault.Invalid, "Network %s could not be found.", r.Network)
	case found[0].External && !c.Who.IsAdmin():
		return r, fault.New(fault.Forbidden, "It is not allowed to create an interface on external network %s",
			r.Network)
	case len(found[0].Subnets) == 0:
		return r, fault.New(fault.Invalid, "Network %s requires a subnet in order to boot instances on.", r.Network)
	}
	if err := s.checkPolicy(c, found[0]); err != nil {
		return r, err
	}
	return r, s.checkFixedIP(c, r, found[0])
}

// Found returns what the found ports request, by the id of the port; nil if they request nothing.
func (s NetworkFinder) Found() map[string]resource.Amounts {
	if len(s.amounts) == 0 {
		return nil
	}
	return s.amounts
}

// countAmounts keeps what a port requests: its guarantees, and a device if its vnic type needs one.
func (s NetworkFinder) countAmounts(p network.Port) {
	all := resource.Amounts{}
	if class, needed := portrequest.Class(p.VNIC); needed {
		all[class] = 1
	}
	if p.Request != nil {
		for _, g := range p.Request.Groups {
			for class, n := range g.Resources {
				all[class] += n
			}
		}
	}
	if len(all) > 0 {
		s.amounts[p.ID] = all
	}
}

// checkFixedIP returns fault.Forbidden if the caller may not choose an address in a network, and fault.Invalid if a
// port has the requested address already. As in Neutron, only the project of a network and administrators choose
// addresses: compute creates the port with its own account, which the network service does not refuse them.
func (s NetworkFinder) checkFixedIP(c *request.Call, r lifecycle.NetworkRequest, n network.Network) error {
	if r.FixedIP == "" {
		return nil
	}
	if n.Project != c.Who.Project && !c.Who.IsAdmin() {
		return fault.New(fault.Forbidden, "It is not allowed to choose an address in network %s, which belongs to "+
			"another project; leave the address out, or use a port", n.ID)
	}
	found, err := s.Networks.Ports(c.R.Context(), url.Values{"network_id": {r.Network},
		"fixed_ips": {"ip_address=" + r.FixedIP}})
	if err != nil || len(found) == 0 {
		return err
	}
	owner := ""
	if found[0].Project == c.Who.Project || c.Who.IsAdmin() {
		owner = " by port " + found[0].ID
	}
	return fault.New(fault.Invalid, "Fixed IP address %s is already in use%s; request another one", r.FixedIP, owner)
}

// hasDeviceTags reports whether an entry of networks may have a tag: from 2.32 on, except in 2.37 to 2.41.
func hasDeviceTags(v compute.Version) bool { return v >= 32 && v <= 36 || v >= 42 }
