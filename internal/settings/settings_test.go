package settings

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// readText reads a configuration and returns the settings and the log.
func readText(t *testing.T, text string) (Settings, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "placement.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	writeEmptyPolicy(t, filepath.Dir(path))
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s, err := Read(logger, path)
	if err == nil && s.Auth == "keystone" {
		var options identity.KeystoneOptions
		if options, err = s.Keystone(logger); err == nil {
			_, err = identity.NewKeystone(options)
		}
	}
	return s, log.String(), err
}

// writeEmptyPolicy writes a policy without rules into the directory of a configuration, where it is found before one of
// this machine in /etc/placement, which only root may be able to read.
func writeEmptyPolicy(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, "policy.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every option of placement.conf: a good value gives no warning, an empty value no panic, and a bad value an error with
// its place.
func TestEveryOption(t *testing.T) {
	const bridge, nic = "[ovs]\nbridge_mappings = physnet0:br-ex\n", "[SRIOV_NIC]\nphysical_device_mappings = " +
		"physnet0:ens1f0\n"
	for _, c := range []struct {
		group, option, good, bad string // bad is empty if every value is valid
		base                     string // text before the option
	}{
		{"DEFAULT", "debug", "true", "perhaps", ""}, {"DEFAULT", "log_file", "/tmp/x.log", "", ""},
		{"DEFAULT", "log_dir", "/tmp", "", ""},
		{"api", "auth_strategy", "noauth2", "none", ""},
		{"placement_database", "connection", "mysql+pymysql://u:p@h/d", "placement.db", ""},
		{"placement", "randomize_allocation_candidates", "yes", "2", ""}, {"placement", "allocation_conflict_retry_count",
			"3", "-1", ""},
		{"placement", "max_allocation_candidates", "100", "many", ""},
		{"placement", "allocation_candidates_generation_strategy", "breadth-first", "best", ""},
		{"placement", "incomplete_consumer_project_id", "p", "", ""}, {"placement", "incomplete_consumer_user_id", "u", "",
			""},
		{"cors", "allowed_origin", "https://a.example,https://b.example", "", ""}, {"cors", "allow_credentials", "no",
			"maybe", ""}, {"cors", "max_age", "10", "long", ""},
		{"cors", "expose_headers", "X-A", "", ""}, {"cors", "allow_methods", "GET,PUT", "", ""}, {"cors", "allow_headers",
			"X-A", "", ""},
		{"oslo_policy", "enforce_scope", "true", "x", ""}, {"oslo_policy", "enforce_new_defaults", "true", "x", ""},
		{"oslo_middleware", "enable_proxy_headers_parsing", "true", "x", ""},
		{"berth", "usage_history", "false", "often", ""},
		{"berth", "index_refresh_interval", "0.5", "0", ""}, {"berth", "max_connections", "100", "0", ""},
		{"berth", "max_connections_per_address", "100", "-1", ""},
		{"glance", "endpoint_override", "https://g.example:9292/v2", "g.example:9292", ""}, {"glance", "api_servers",
			"http://a:9292,http://b:9292", "controller", ""},
		{"glance", "region_name", "RegionOne", "", ""}, {"glance", "valid_interfaces", "public,admin", "sideways", ""},
		{"glance", "num_retries", "0", "x", ""},
		{"ssl", "cert_file", "/x.pem", "", "[ssl]\nkey_file = /x.pem\n"},
		{"ssl", "key_file", "/x.pem", "", "[ssl]\ncert_file = /x.pem\n"},
		{"ssl", "ca_file", "/x.pem", "", "[ssl]\ncert_file = /x.pem\nkey_file = /x.pem\n"},
		{"placement", "cafile", "/x.pem", "", ""}, {"placement", "certfile", "/x.pem", "", ""},
		{"placement", "keyfile", "/x.pem", "", "[placement]\ncertfile = /x.pem\n"},
		{"placement", "insecure", "false", "x", ""},
		{"berth", "compute_cafile", "/x.pem", "", ""}, {"berth", "compute_certfile", "/x.pem", "", ""},
		{"berth", "compute_keyfile", "/x.pem", "", "[berth]\ncompute_certfile = /x.pem\n"},
		{"audit_middleware_notifications", "driver", "log", "messagingv2", ""},
		{"berth", "audit_directory", "/tmp", "/nowhere", "[audit_middleware_notifications]\ndriver = log\n"},
		{"berth", "audit_days", "30", "-1", ""},
		{"audit", "interval", "600", "-1", ""},
		{"berth", "otlp_endpoint", "http://127.0.0.1:4318", "127.0.0.1:4318", ""},
		{"glance", "timeout", "3", "0", ""}, {"glance", "insecure", "true", "x", ""}, {"glance", "auth_type", "password",
			"token", ""}, {"glance", "cafile", "", "", ""},
		{"DEFAULT", "http_basic_auth_user_file", "/tmp/htpasswd", "", ""}, {"berth", "admin_users", "ann, bob", "", ""},
		{"berth", "ignored_properties", "hw:pmu, quota:*", "", ""},
		{"berth", "service_users", "nova", "", ""}, {"berth", "user_projects", "ann:p1, bob:p2", "ann", ""},
		{"placement", "auth_type", "http_basic", "kerberos", ""}, {"placement", "endpoint_override", "http://p", "", ""},
		{"placement", "valid_interfaces", "public", "sideways", ""}, {"placement", "timeout", "5", "soon", ""},
		{"placement", "region_name", "RegionOne", "", ""}, {"compute", "auth_type", "none", "kerberos", ""},
		{"berth", "report_network_devices", "true", "maybe", "[pci]\nreport_in_placement = true\n"},
		{"berth", "port_interval", "10", "0", ""}, {"neutron", "auth_type", "none", "kerberos", ""},
		{"neutron", "valid_interfaces", "internal", "sideways", ""}, {"neutron", "endpoint_override", "http://n", "", ""},
		{"compute", "auth_section", "placement", "", ""}, {"compute", "valid_interfaces", "internal", "sideways", ""},
		{"keystone_authtoken", "insecure", "true", "x", keystoneConf}, {"keystone_authtoken", "region_name", "RegionOne", "",
			keystoneConf},
		{"keystone_authtoken", "interface", "internal", "sideways", keystoneConf},
		{"keystone_authtoken", "service_token_roles", "service,admin", "", keystoneConf},
		{"keystone_authtoken", "service_token_roles_required", "true", "x", keystoneConf},
		{"keystone_authtoken", "token_cache_time", "30", "soon", keystoneConf},
		{"keystone_authtoken", "service_type", "placement", "", keystoneConf}, {"keystone_authtoken", "http_connect_timeout",
			"5", "x", keystoneConf},
		{"keystone_authtoken", "http_request_max_retries", "2", "-2", keystoneConf}, {"keystone_authtoken", "cafile", "", "",
			keystoneConf},
		{"keystone_authtoken", "delay_auth_decision", "false", "x", keystoneConf},
		{"keystone_authtoken", "include_service_catalog", "false", "", keystoneConf},
		{"berth", "report_bandwidth", "false", "maybe", ""}, {"berth", "neutron_config_files", "", "ml2.ini", ""},
		{"ovs", "bridge_mappings", "physnet0:br-ex", "br-ex", ""},
		{"ovs", "resource_provider_bandwidths", "br-ex:1:2", "br-ex:1", bridge},
		{"ovs", "resource_provider_hypervisors", "br-ex:cmp1", "cmp1", bridge},
		{"ovs", "resource_provider_default_hypervisor", "cmp1", "a:b", bridge},
		{"ovs", "resource_provider_inventory_defaults", "min_unit:1", "total:1", bridge},
		{"ovs", "resource_provider_packet_processing_without_direction", ":1", ":1:2", ""},
		{"ovs", "resource_provider_packet_processing_with_direction", ":1:2", ":1", ""},
		{"ovs", "resource_provider_packet_processing_inventory_defaults", "reserved:1", "reserved:-1", bridge},
		{"ovs_driver", "vnic_type_prohibit_list", "direct", "macvtap", bridge},
		{"SRIOV_NIC", "physical_device_mappings", "physnet0:ens1f0", "ens1f0", ""},
		{"SRIOV_NIC", "resource_provider_bandwidths", "ens1f0:1:2", "ens1f1:1:2", nic},
		{"SRIOV_NIC", "resource_provider_hypervisors", "ens1f0:cmp1", "ens1f0:a:b", nic},
		{"SRIOV_NIC", "resource_provider_default_hypervisor", "cmp1", "a:b", nic},
		{"SRIOV_NIC", "resource_provider_inventory_defaults", "max_unit:1", "max_unit:many", nic},
		{"sriov_driver", "vnic_type_prohibit_list", "macvtap", "normal", nic},
		{"ml2", "tunnelled_network_rp_name", "rp_tunnelled", "", ""},
	} {
		t.Run(c.group+" "+c.option, func(t *testing.T) {
			line := "[" + c.group + "]\n" + c.option + " = "
			deprecated := c.option == "enforce_scope"
			if _, warned, err := readText(t, c.base+line+c.good+"\n"); err != nil || warned != "" && !deprecated {
				t.Errorf("%q: %v %s", c.good, err, warned)
			}
			if c.bad == "" {
				return
			}
			_, _, err := readText(t, c.base+line+c.bad+"\n")
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.option) || !strings.Contains(err.Error(),
				"placement.conf:") ||
				!strings.Contains(err.Error(), " = "+c.bad+": ") && !strings.Contains(err.Error(), " = ***: ") {
				t.Errorf("%q: %v", c.bad, err)
			}
		})
	}
}

// Unknown, deprecated and unsupported options give a warning.
func TestWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"[placement]\nallocation_conflict_retry_cuont = 3\n":          "allocation_conflict_retry_cuont",
		"[oslo_messaging_rabbit]\nssl = true\n":                       "oslo_messaging_rabbit",
		keystoneConf + "memcached_servers = 127.0.0.1:11211\n":        "memcached is not used",
		keystoneConf + "auth_version = v2.0\n":                        "v3 API",
		keystoneConf + "delay_auth_decision = true\n":                 "refused at once",
		strings.Replace(keystoneConf, "www_authenticate_uri", "#", 1): "www_authenticate_uri is not set",
		"[berth]\nmax_connections = 1048576\n":                        "",
	} {
		if _, warned, err := readText(t, text); err != nil || !strings.Contains(warned, want) ||
			want != "" && !strings.Contains(warned, "level=WARN") {
			t.Errorf("%s: %v, warned: %s", text, err, warned)
		}
	}
}
