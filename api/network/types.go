package network

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// Network is a network. Attributes that the policy hides from the caller are empty.
type Network struct {
	ID              string   `json:"id"`
	Name            string   `json:"name"`
	Project         string   `json:"project_id"`
	Description     string   `json:"description"`
	AdminUp         bool     `json:"admin_state_up"`
	Status          string   `json:"status"`
	Shared          bool     `json:"shared"`
	External        bool     `json:"router:external"`
	MTU             int      `json:"mtu"`
	Subnets         []string `json:"subnets"`
	Policy          string   `json:"qos_policy_id"` // empty for null
	NetworkType     string   `json:"provider:network_type"`
	PhysicalNetwork string   `json:"provider:physical_network"`
	SegmentationID  int      `json:"provider:segmentation_id"`
	// Segments are those of a network with several ones, which has no provider attributes of its own.
	Segments []ProviderSegment `json:"segments"`
	Tags     []string          `json:"tags"`
	Revision int               `json:"revision_number"`
}

// ProviderSegment is a segment of a network as the attributes of the network show it.
type ProviderSegment struct {
	PhysicalNetwork string `json:"provider:physical_network"` // empty for null
}

// PhysicalNetworks returns the physical network of each segment; an empty text for a segment without one.
func (n Network) PhysicalNetworks() []string {
	if len(n.Segments) == 0 {
		return []string{n.PhysicalNetwork}
	}
	var all []string
	for _, s := range n.Segments {
		all = append(all, s.PhysicalNetwork)
	}
	return all
}

// Subnet is a subnet.
type Subnet struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Network   string   `json:"network_id"`
	IPVersion int      `json:"ip_version"`
	CIDR      string   `json:"cidr"`
	Gateway   string   `json:"gateway_ip"` // empty for null
	DHCP      bool     `json:"enable_dhcp"`
	DNS       []string `json:"dns_nameservers"`
	Routes    []Route  `json:"host_routes"`
	// AddressMode is ipv6_address_mode: slaac, dhcpv6-stateful or dhcpv6-stateless; empty for null.
	AddressMode string   `json:"ipv6_address_mode"`
	Tags        []string `json:"tags"`
}

// Route is a route that the hosts of a subnet have in addition to that of the gateway.
type Route struct {
	Destination string `json:"destination"` // in CIDR notation
	NextHop     string `json:"nexthop"`
}

// FixedIP is an address of a port.
type FixedIP struct {
	Subnet  string `json:"subnet_id,omitempty"`
	Address string `json:"ip_address,omitempty"`
}

// Port is a port. Attributes that the policy hides from the caller are empty.
type Port struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Project     string    `json:"project_id"`
	Network     string    `json:"network_id"`
	MAC         string    `json:"mac_address"`
	AdminUp     bool      `json:"admin_state_up"`
	Status      string    `json:"status"`
	Device      string    `json:"device_id"`
	DeviceOwner string    `json:"device_owner"`
	FixedIPs    []FixedIP `json:"fixed_ips"`
	ActiveBinding
	Policy         string           `json:"qos_policy_id"`         // empty for null
	NetworkPolicy  string           `json:"qos_network_policy_id"` // empty for null
	NUMAAffinity   string           `json:"numa_affinity_policy"`  // empty for null
	Request        *ResourceRequest `json:"resource_request"`
	Tags           []string         `json:"tags"`
	SecurityGroups []string         `json:"security_groups"` // ids
	DNSName        *string          `json:"dns_name"`        // nil: the service has no extension dns-integration
	Revision       int              `json:"revision_number"`
}

// ActiveBinding is where a port is bound and how: the attributes of a Port that begin with "binding:".
type ActiveBinding struct {
	Host       string         `json:"binding:host_id"`
	VNIC       string         `json:"binding:vnic_type"`
	VIF        string         `json:"binding:vif_type"`
	VIFDetails map[string]any `json:"binding:vif_details"`
	Profile    map[string]any `json:"binding:profile"`
}

// Trusted reports whether the profile has the key trusted, which is a boolean or a text: the VF of the port is trusted.
func (b ActiveBinding) Trusted() bool {
	switch v := b.Profile["trusted"].(type) {
	case bool:
		return v
	case string:
		trusted, _ := strconv.ParseBool(v)
		return trusted
	}
	return false
}

// ResourceRequest is what a port requests from Placement. An answer in the format before the extension
// port-resource-request-groups becomes one group without an ID.
type ResourceRequest struct {
	Groups      []RequestGroup `json:"request_groups"`
	SameSubtree []string       `json:"same_subtree"`
}

// RequestGroup is one group of a ResourceRequest. An element of Required is a trait, or "in:" with several ones,
// separated by commas, of which the provider has at least one.
type RequestGroup struct {
	ID        string           `json:"id"`
	Required  []string         `json:"required"`
	Resources resource.Amounts `json:"resources"`
}

// UnmarshalJSON decodes both formats.
func (r *ResourceRequest) UnmarshalJSON(text []byte) error {
	type current ResourceRequest
	var both struct {
		current
		RequestGroup
	}
	if err := json.Unmarshal(text, &both); err != nil {
		return err
	}
	*r = ResourceRequest(both.current)
	if r.Groups == nil && (len(both.RequestGroup.Resources) > 0 || len(both.RequestGroup.Required) > 0) {
		r.Groups = []RequestGroup{both.RequestGroup}
	}
	return nil
}

// Allocation returns binding:profile.allocation: the provider of each group. Before the extension
// port-resource-request-groups it is one text, which is returned under the empty ID.
func (p Port) Allocation() map[string]string {
	all := map[string]string{}
	switch v := p.Profile[ProfileAllocation].(type) {
	case string:
		all[""] = v
	case map[string]any:
		for id, provider := range v {
			all[id], _ = provider.(string)
		}
	}
	return all
}

// PortBinding is the binding of a port to one host. A port has one with the status ACTIVE, and while its server
// migrates others with the status INACTIVE.
type PortBinding struct {
	Host       string         `json:"host"`
	VNIC       string         `json:"vnic_type"`
	VIF        string         `json:"vif_type"`
	VIFDetails map[string]any `json:"vif_details"`
	Profile    map[string]any `json:"profile"`
	Status     string         `json:"status"`
}

// Segment is a segment of a network.
type Segment struct {
	ID              string `json:"id"`
	Name            string `json:"name"` // empty for null
	Network         string `json:"network_id"`
	NetworkType     string `json:"network_type"`
	PhysicalNetwork string `json:"physical_network"` // empty for null
	SegmentationID  int    `json:"segmentation_id"`  // 0 for null
}

// Policy is a QoS policy.
type Policy struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Project string `json:"project_id"`
	Shared  bool   `json:"shared"`
	Rules   []Rule `json:"rules"`
}

// Rule is a rule of a policy. Type is set in the rules of a Policy only.
type Rule struct {
	ID        string `json:"id"`
	Type      string `json:"type,omitempty"`
	Direction string `json:"direction,omitempty"`
	MinKbps   int    `json:"min_kbps,omitempty"`
	MinKpps   int    `json:"min_kpps,omitempty"`
	MaxKbps   int    `json:"max_kbps,omitempty"`
}

// Agent is an agent of a host. Synced is nil if the agent reports nothing to Placement.
type Agent struct {
	ID             string         `json:"id"`
	Type           string         `json:"agent_type"`
	Host           string         `json:"host"`
	AdminUp        bool           `json:"admin_state_up"`
	Alive          bool           `json:"alive"`
	Synced         *bool          `json:"resources_synced"`
	Configurations map[string]any `json:"configurations"`
}

// decodeObject decodes the value of a key of an answer.
func decodeObject(body []byte, key string, into any) error {
	var outer map[string]json.RawMessage
	err := json.Unmarshal(body, &outer)
	if err == nil {
		err = json.Unmarshal(outer[key], into)
	}
	return wrongAnswer(err)
}

// decodeKey decodes an answer of which only one key is read.
func decodeKey(body []byte, key string, into any) error {
	var outer map[string]json.RawMessage
	if err := json.Unmarshal(body, &outer); err != nil {
		return wrongAnswer(err)
	}
	var text bytes.Buffer
	text.WriteString("{" + `"` + key + `":`)
	text.Write(outer[key])
	text.WriteString("}")
	return wrongAnswer(json.Unmarshal(text.Bytes(), into))
}

func wrongAnswer(err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.Internal, "the answer does not match the Networking API: %w", err)
}

// withType adds the type of Neutron's error to a fault as its code, and its message as the text.
func withType(err error, answer rest.Answer) error {
	var body struct {
		NeutronError struct{ Type, Message string }
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || json.Unmarshal(answer.Body, &body) != nil || body.NeutronError.Type == "" {
		return err
	}
	typed := *f
	typed.Code, typed.Msg = body.NeutronError.Type, body.NeutronError.Message
	return &typed
}
