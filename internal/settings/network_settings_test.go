package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/policy"
)

// TestNetworkOptions reads the options of the network service under Neutron's names.
func TestNetworkOptions(t *testing.T) {
	s, _, err := readText(t, "")
	if err != nil {
		t.Fatal(err)
	}
	s.Network.Policy = Policy{}
	none := map[string][][2]int{"vxlan": nil, "geneve": nil, "gre": nil}
	quotas := map[string]int{"network": 100, "subnet": 100, "port": 500, "security_group": 10,
		"security_group_rule": 100, "rbac_policy": 10,
		"subnetpool": -1}
	if want := (NetworkSettings{TenantTypes: []string{"local"}, Flat: []string{"*"}, Tunnels: none, MTU: 1500,
		DNSDomain: "openstacklocal", Quotas: quotas}); !reflect.DeepEqual(s.Network, want) {
		t.Errorf("defaults %+v, want %+v", s.Network, want)
	}
	s, log, err := readText(t, "[DEFAULT]\nglobal_physnet_mtu = 9000\ndns_domain = cloud.test\n"+
		"[ml2]\ntenant_network_types = vlan,vxlan\n"+
		"[ml2_type_flat]\nflat_networks = a, b\n[ml2_type_vlan]\nnetwork_vlan_ranges = physnet0:10:20,physnet1\n"+
		"[ml2_type_vxlan]\nvni_ranges = 1:5, 8:9\n[quotas]\nquota_network = -1\nquota_port = 7\n"+
		"[network_database]\nconnection = sqlite:////tmp/n.db\n")
	if err != nil {
		t.Fatal(err)
	}
	s.Network.Policy = Policy{}
	none["vxlan"] = [][2]int{{1, 5}, {8, 9}}
	quotas["network"], quotas["port"] = -1, 7
	if want := (NetworkSettings{TenantTypes: []string{"vlan", "vxlan"}, Flat: []string{"a", "b"},
		VLANs: []VLANRange{{"physnet0", 10, 20}, {"physnet1", 0, 0}}, Tunnels: none, MTU: 9000,
		DNSDomain: "cloud.test", Quotas: quotas}); !reflect.DeepEqual(s.Network, want) ||
		s.NetworkDB != "sqlite:////tmp/n.db" {
		t.Errorf("%+v %s, want %+v", s.Network, s.NetworkDB, want)
	}
	if strings.Contains(log, "does not know") {
		t.Error(log)
	}
}

// TestWrongNetworkOptions: a wrong value is reported with its place.
func TestWrongNetworkOptions(t *testing.T) {
	for text, want := range map[string]string{
		"[ml2]\ntenant_network_types = vlan,ring\n":                        `"ring" is not a type of tenant networks`,
		"[ml2_type_vlan]\nnetwork_vlan_ranges = physnet0:1\n":              `"physnet0:1" is not a range of VLANs`,
		"[ml2_type_vlan]\nnetwork_vlan_ranges = physnet0:1:4095\n":         `"physnet0:1:4095" is not a range of VLANs`,
		"[ml2_type_vlan]\nnetwork_vlan_ranges = :1:5\n":                    `":1:5" is not a range of VLANs`,
		"[ml2_type_vxlan]\nvni_ranges = 9:8\n":                             `"9:8" is not a range of tunnel IDs`,
		"[DEFAULT]\nglobal_physnet_mtu = 9\n":                              "global_physnet_mtu",
		"[DEFAULT]\ndns_domain = cloud test\n":                             `"cloud test" is not a domain`,
		"[DEFAULT]\ndns_domain = " + strings.Repeat("a.", 95) + "\n":       "more than 189 characters",
		"[quotas]\nquota_port = -2\n":                                      "quota_port",
		"[network_database]\nconnection = postgresql+psycopg2://u@h:x/d\n": "network_database",
	} {
		if _, _, err := readText(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestNetworkPolicyFile: the policy file beside the configuration also has rules of the network service.
func TestNetworkPolicyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("create_network: rule:admin_only\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ann, target := policy.Creds{"project_id": "p", "roles": []string{}}, map[string]any{"project_id": "p"}
	for text, want := range map[string]bool{"": true, "[oslo_policy]\npolicy_file = " + path + "\n": false} {
		s, _, err := readText(t, text)
		if err != nil {
			t.Fatal(fault.TextOf(err))
		}
		if ok, why := s.Network.Policy.Allow("create_network", ann, target); ok != want {
			t.Errorf("%q: %t %s", text, ok, why)
		}
	}
}
