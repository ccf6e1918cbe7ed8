package resources

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/policies"
	"github.com/openberth/berth/network/qos"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/resource"
)

// ports returns the collection of ports.
func (s handlers) ports() request.Collection {
	return request.Collection{One: "port", Many: "ports", Missing: "PortNotFound",
		Attributes: request.With("network_id", "admin_state_up", "status", "mac_address", "device_id", "device_owner",
			"fixed_ips",
			"binding:host_id", "binding:vnic_type", "binding:vif_type", "qos_policy_id", "qos_network_policy_id",
			"port_security_enabled", "security_groups", "dns_name"),
		List: s.listPorts, Show: s.showPort, Draft: s.draftInNetwork, Create: s.createPort, Update: s.updatePort,
		Check: s.checkPort,
		Remove: func(c *request.Call, id string, revision int) error {
			return s.Ops.DeletePort(c.R.Context(), id, revision)
		}}
}

// world is what the documents of ports depend on.
type world struct {
	networks map[string]store.Network
	policies map[string]store.Policy
}

// readWorld returns what the documents of these ports depend on.
func readWorld(ctx context.Context, tx *store.Tx, ports ...store.Port) (w world, err error) {
	networks, policies := map[string]bool{}, map[string]bool{}
	for _, p := range ports {
		networks[p.Network] = true
	}
	if w.networks, err = networksByID(ctx, tx, networks); err != nil {
		return w, err
	}
	for _, p := range ports {
		if id := qos.Effective(p.Policy, w.networks[p.Network].Policy); id != "" {
			policies[id] = true
		}
	}
	if w.policies = map[string]store.Policy{}; len(policies) == 0 {
		return w, nil
	}
	list, err := store.List[store.Policy](ctx, tx, store.Filter{IDs: slices.Sorted(maps.Keys(policies))})
	for _, p := range list {
		w.policies[p.ID] = p
	}
	return w, err
}

func (s handlers) listPorts(c *request.Call, q url.Values) (list []request.Document, err error) {
	ctx := c.R.Context()
	f := request.StoreFilter(q)
	f.Networks, f.Devices, f.Hosts = q["network_id"], q["device_id"], q["binding:host_id"]
	err = s.Ops.Store.Read(ctx, func(tx *store.Tx) error {
		found, err := store.List[store.Port](ctx, tx, f)
		if err != nil {
			return err
		}
		w, err := readWorld(ctx, tx, found...)
		list = nil
		for _, p := range found {
			n := w.networks[p.Network]
			list = append(list, portDocument(c, p, n, w.policies[qos.Effective(p.Policy, n.Policy)]))
		}
		return err
	})
	return list, err
}

func (s handlers) showPort(c *request.Call, id string) (request.Document, error) {
	p, n, policy, err := operations.PortWithPolicy(c.R.Context(), s.Ops, id)
	if err != nil {
		return request.Document{}, err
	}
	return portDocument(c, p, n, policy), nil
}

// portDocument returns the document of a port of a network; policy is its effective one.
func portDocument(c *request.Call, p store.Port, n store.Network, policy store.Policy) request.Document {
	view := request.Common(p.Base)
	ips, pairs := []map[string]any{}, []map[string]any{}
	for _, ip := range sortedIPs(p.FixedIPs) {
		ips = append(ips, map[string]any{"subnet_id": ip.Subnet, "ip_address": ip.Address})
	}
	for _, pair := range p.Pairs {
		mac := pair.MAC
		if mac == "" {
			mac = p.MAC
		}
		pairs = append(pairs, map[string]any{"ip_address": pair.Address, "mac_address": mac})
	}
	assignments := []map[string]any{}
	for _, one := range operations.DNSAssignments(p, operations.Domain(c.Service.Ops, n)) {
		assignments = append(assignments, map[string]any{"ip_address": one.Address, "hostname": one.Hostname,
			"fqdn": one.FQDN})
	}
	profile := p.Binding.Profile
	if profile == nil {
		profile = map[string]any{}
	}
	maps.Copy(view, map[string]any{"network_id": p.Network, "mac_address": p.MAC, "admin_state_up": p.AdminUp,
		"status": p.Status, "device_id": p.Device, "device_owner": p.Owner, "fixed_ips": ips,
		"allowed_address_pairs": pairs, "extra_dhcp_opts": []any{}, "security_groups": request.NotNil(p.Groups),
		"port_security_enabled": p.PortSecurity, "binding:host_id": p.Binding.Host, "binding:vnic_type": p.Binding.VNIC,
		"binding:profile": profile, "binding:vif_type": p.Binding.VIF, "binding:vif_details": vifDetails(p, n),
		"dns_name": p.DNSName, "dns_assignment": assignments,
		"qos_policy_id": edge.OrNull(p.Policy), "qos_network_policy_id": edge.OrNull(n.Policy),
		"numa_affinity_policy": edge.OrNull(p.NUMAAffinity), "propagate_uplink_status": false,
		"resource_request": resourceRequest(p, n, policy)})
	return request.Document{View: view, Target: c.Target(p.Project, map[string]any{"network:project_id": n.Project,
		"network:tenant_id": n.Project, "owner_kind": request.OwnerKind(p.Owner)})}
}

// sortedIPs returns the addresses in the order in which Neutron lists them: that of their texts.
func sortedIPs(ips []store.FixedIP) []store.FixedIP {
	return slices.SortedStableFunc(slices.Values(ips), func(a, b store.FixedIP) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.Subnet, b.Subnet))
	})
}

// resourceRequest returns the attribute resource_request: null without a guarantee. A group of a network with several
// physical networks requires any of their traits, in the syntax of Placement's parameter required.
func resourceRequest(p store.Port, n store.Network, policy store.Policy) any {
	var groups []map[string]any
	var ids []string
	for _, g := range operations.Groups(p, n, policy) {
		required := []string{}
		if len(g.AnyOf) > 0 {
			required = append(required, anyOf(g.AnyOf))
		}
		for _, t := range g.Required {
			required = append(required, string(t))
		}
		groups = append(groups, map[string]any{"id": g.ID, "required": required, "resources": g.Resources})
		ids = append(ids, g.ID)
	}
	if groups == nil {
		return nil
	}
	return map[string]any{"request_groups": groups, "same_subtree": ids}
}

func anyOf(traits []resource.Trait) string {
	text := "in:"
	for i, t := range traits {
		if i > 0 {
			text += ","
		}
		text += string(t)
	}
	return text
}

// vifDetails returns the attribute binding:vif_details of a bound port. On a bridge of Open vSwitch the port belongs to
// one VLAN, in a flat network to 0: frames without a tag. A failed binding has its reason.
func vifDetails(p store.Port, n store.Network) map[string]any {
	vlan := 0
	for _, seg := range n.Segments {
		if seg.UUID == p.Binding.Segment && seg.Type == "vlan" {
			vlan = seg.ID
		}
	}
	details := map[string]any{}
	if p.Binding.Reason != "" {
		details["reason"] = p.Binding.Reason
	}
	if p.Binding.Agent != "" {
		details["connectivity"] = "l2"
		details["port_filter"] = binding.NoFilter(p.Binding.VNIC, bandwidth.AgentType(p.Binding.Agent)) == ""
	}
	if p.Binding.Bridge != "" {
		details["bridge_name"] = p.Binding.Bridge
	}
	if p.Binding.Bridge != "" && p.Binding.Agent == string(bandwidth.OpenVSwitch) ||
		vlan != 0 && p.Binding.Agent == string(bandwidth.NICSwitch) {
		details["vlan"] = strconv.Itoa(vlan)
	}
	return details
}

// noDNS is why domains of ports are refused.
const noDNS = "the names of ports are in the domain of their network; set dns_domain of the network"

// readPort decodes the attributes of a port that creates and updates have in common. given reports whether the request
// has fixed_ips.
func readPort(o *edge.Object, p *store.Port) (ips []store.FixedIP, given bool) {
	o.Text("name", &p.Name, 255)
	o.Text("description", &p.Description, 255)
	o.Flag("admin_state_up", &p.AdminUp)
	o.Flag("port_security_enabled", &p.PortSecurity)
	o.Text("device_id", &p.Device, 255)
	o.Text("device_owner", &p.Owner, 255)
	o.Text("qos_policy_id", &p.Policy, 255)
	o.Word("numa_affinity_policy", &p.NUMAAffinity, "required", "preferred", "legacy", "socket")
	mac := ""
	if o.Text("mac_address", &mac, 32); mac != "" {
		parsed, ok := address.ParseMAC(mac)
		if !ok {
			o.Invalid("mac_address", "'%s' is not a valid MAC address", mac)
		}
		p.MAC = parsed.String()
	}
	o.Text("binding:host_id", &p.Binding.Host, 255)
	o.Word("binding:vnic_type", &p.Binding.VNIC, binding.VNICTypes()...)
	if p.Binding.VNIC == "" {
		p.Binding.VNIC = "normal"
	}
	if o.Has("binding:profile") {
		p.Binding.Profile = nil
		o.Decode("binding:profile", &p.Binding.Profile, "an object")
	}
	readPairs(o, p)
	readGroups(o, p)
	if o.Text("dns_name", &p.DNSName, 255) {
		p.DNSName = strings.ToLower(p.DNSName)
	}
	o.Reasons = map[string]string{"dns_domain": noDNS,
		"extra_dhcp_opts": "Berth has no DHCP options of single ports; leave it out"}
	o.Ignore("tags", "propagate_uplink_status",
		"device_profile", "hints", "hardware_offload_type", "trusted")
	return readFixedIPs(o)
}

// readGroups decodes the security groups of a port. null is the default group of a new port, and none of another.
func readGroups(o *edge.Object, p *store.Port) {
	if !o.Has("security_groups") {
		return
	}
	var list []string
	o.Decode("security_groups", &list, "a list of the ids of security groups")
	if p.ID != "" && list == nil {
		list = []string{}
	}
	p.Groups = list
}

func readPairs(o *edge.Object, p *store.Port) {
	if !o.Has("allowed_address_pairs") {
		return
	}
	var list []struct {
		Address string `json:"ip_address"`
		MAC     string `json:"mac_address"`
	}
	o.Decode("allowed_address_pairs", &list, "a list of objects with ip_address and mac_address")
	p.Pairs = nil
	for _, pair := range list {
		_, err := address.Parse(pair.Address)
		if _, err2 := netip.ParsePrefix(pair.Address); err != nil && err2 != nil {
			o.Invalid("allowed_address_pairs", "'%s' is not an address or a network", pair.Address)
		}
		if pair.MAC != "" {
			mac, ok := address.ParseMAC(pair.MAC)
			if !ok {
				o.Invalid("allowed_address_pairs", "'%s' is not a valid MAC address", pair.MAC)
			}
			pair.MAC = mac.String()
		}
		p.Pairs = append(p.Pairs, store.AddressPair(pair))
	}
}

// maxFixedIPs is how many addresses a request can give to a port. Each one is a search while no other client can write.
const maxFixedIPs = 50

func readFixedIPs(o *edge.Object) (ips []store.FixedIP, given bool) {
	var list []struct {
		Subnet  string `json:"subnet_id"`
		Address string `json:"ip_address"`
	}
	given = o.Has("fixed_ips") && string(o.Keys["fixed_ips"]) != "null"
	o.Decode("fixed_ips", &list, "a list of objects with subnet_id and ip_address")
	request.LimitList(o, "fixed_ips", len(list), maxFixedIPs)
	ips = []store.FixedIP{}
	for _, one := range list {
		if one.Address == "" && one.Subnet == "" {
			o.Invalid("fixed_ips", "an element has neither subnet_id nor ip_address")
		}
		if a, err := address.Parse(one.Address); err == nil {
			one.Address = a.String()
		}
		ips = append(ips, store.FixedIP(one))
	}
	return ips, given
}

// checkPort refuses a policy and groups that the caller may not see, and an address that it may not choose.
func (s handlers) checkPort(c *request.Call, rule string, o *edge.Object, target map[string]any) error {
	if err := s.checkPolicy(c, rule, o, target); err != nil {
		return err
	}
	if err := (groups{s}).checkVisible(c, o); err != nil {
		return err
	}
	if address := rule + ":fixed_ips:ip_address"; namesAddress(o) && policies.Has(address) {
		return c.Authorize(address, target)
	}
	return nil
}

// namesAddress reports whether the attribute fixed_ips of a request has an address.
func namesAddress(o *edge.Object) bool {
	ips, _ := readFixedIPs(o.Copy())
	return slices.ContainsFunc(ips, func(ip store.FixedIP) bool { return ip.Address != "" })
}

func (s handlers) createPort(c *request.Call, o *edge.Object) (request.Document, error) {
	p := store.Port{AdminUp: true}
	p.Project, _ = c.Project(o)
	o.Text("network_id", &p.Network, 255)
	p.PortSecurity = c.Network.PortSecurity // unless the request has another value
	ips, given := readPort(o, &p)
	if err := o.Finish(); err != nil {
		return request.Document{}, err
	}
	if !given {
		ips = nil
	}
	p, err := s.Ops.CreatePort(c.R.Context(), p, ips)
	if err != nil {
		return request.Document{}, err
	}
	return s.showPort(c, p.ID)
}

func (s handlers) updatePort(c *request.Call, id string, revision int, o *edge.Object) (request.Document, error) {
	_, err := s.Ops.UpdatePort(c.R.Context(), id, revision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		o := o.Copy()
		ips, given := readPort(o, p)
		return ips, given, o.Finish()
	})
	if err != nil {
		return request.Document{}, err
	}
	return s.showPort(c, id)
}
