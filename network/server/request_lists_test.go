package server

import (
	"fmt"
	"reflect"
	"testing"
)

// TestRequestsInLists has rows Q7 and Q8: in a list of ports, each has the request that it has alone. Policies with a
// bandwidth, a packet rate, both, other rules and none are on a network with a physical network, and on an overlay.
func TestRequestsInLists(t *testing.T) {
	f := start(t)
	rules := map[string][]string{"bandwidth": {"minimum_bandwidth"}, "rate": {"minimum_packet_rate"},
		"both": {"minimum_packet_rate", "minimum_bandwidth"}, "other": {"dscp_marking"}, "none": {}}
	attributes := map[string]string{"minimum_bandwidth": `{"min_kbps": 1000}`, "minimum_packet_rate": `{"min_kpps": 5}`,
		"dscp_marking": `{"dscp_mark": 8}`}
	groups := map[string]int{"bandwidth": 1, "rate": 1, "both": 2}
	networks := []string{
		`{"provider:network_type": "vlan", "provider:physical_network": "physnet0", "provider:segmentation_id": 7}`,
		`{"provider:network_type": "vxlan", "provider:segmentation_id": 8}`}
	for _, network := range networks {
		n := f.create("admin", "/v2.0/networks", "network", network)["id"].(string)
		for name, kinds := range rules {
			policy := f.create("admin", "/v2.0/qos/policies", "policy", `{}`)["id"].(string)
			for _, kind := range kinds {
				f.create("admin", "/v2.0/qos/policies/"+policy+"/"+kind+"_rules", kind+"_rule", attributes[kind])
			}
			f.create("admin", "/v2.0/ports", "port", fmt.Sprintf(`{"network_id": %q, "name": %q, "qos_policy_id": %q}`, n,
				name, policy))
		}
	}
	_, answer := f.do("admin", "GET", "/v2.0/ports", "")
	list := answer["ports"].([]any)
	if len(list) != len(networks)*len(rules) {
		t.Fatalf("%d ports", len(list))
	}
	for _, one := range list {
		port := one.(map[string]any)
		_, answer := f.do("admin", "GET", "/v2.0/ports/"+port["id"].(string), "")
		alone := answer["port"].(map[string]any)["resource_request"]
		request, _ := port["resource_request"].(map[string]any)
		got, _ := request["request_groups"].([]any)
		if want := groups[port["name"].(string)]; len(got) != want || want == 0 && port["resource_request"] != nil ||
			!reflect.DeepEqual(port["resource_request"], alone) {
			t.Errorf("%s: %v in the list, %v alone", port["name"], port["resource_request"], alone)
		}
	}
}
