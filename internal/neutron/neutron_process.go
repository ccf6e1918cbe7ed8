package neutron

import (
	_ "embed" // for heartbeats.py
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/clienttest"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
)

//go:embed heartbeats.py
var heartbeats string

// Neutron is a running service. Keystone's catalog lists it with type network.
type Neutron struct {
	URL string // http://127.0.0.1:port, without /v2.0

	dir    string
	agents string // directory with the states of agents
}

// Start starts a Neutron behind the Keystone of a cloud that has Berth's Placement. The drivers openvswitch and
// sriovnicswitch bind ports; ports of vnic type direct are left to the latter. Neutron reports deleted ports of servers
// to the compute service of the catalog, which must have its address before.
func Start(t testing.TB, c *clienttest.Cloud) *Neutron {
	t.Helper()
	testenv.Need(t, "Neutron")
	for _, program := range []string{"neutron-server", "neutron-db-manage", "rabbitmq-server", "epmd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: run `make neutron`", program)
		}
	}
	dir, addr := t.TempDir(), clienttest.Free(t)
	n := &Neutron{URL: "http://" + addr, dir: dir, agents: filepath.Join(dir, "agents")}
	for _, sub := range []string{n.agents, filepath.Join(dir, "lock")} {
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.User(t, "neutron", "service", "admin", "service")
	rabbit := clienttest.RabbitMQ(t, dir)
	conf := filepath.Join(dir, "neutron.conf")
	clienttest.Write(t, conf, configuration(c, dir, addr, rabbit, databases.MariaDB(t).Database(t)))
	upgrade := exec.CommandContext(t.Context(), "neutron-db-manage", "--config-file", conf, "upgrade", "heads")
	if out, err := upgrade.CombinedOutput(); err != nil {
		t.Fatalf("neutron-db-manage upgrade: %v\n%s", err, out)
	}
	clienttest.Run(t, filepath.Join(dir, "neutron.log"), addr, "neutron-server", "--config-file", conf)
	c.Endpoint(t, c.Service(t, "network"), c.Region, n.URL)
	program := filepath.Join(dir, "heartbeats.py")
	clienttest.Write(t, program, heartbeats)
	clienttest.Run(t, filepath.Join(dir, "heartbeats.log"), "", "/usr/bin/python3", program, rabbit, n.agents)
	return n
}

// Report sends the heartbeats of an agent of a host from now on, in place of those it has sent before.
func (n *Neutron) Report(t testing.TB, host string, a bandwidth.Agent) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"agent_type": a.Type, "binary": binaries[a.Type], "host": host,
		"topic": "N/A", "configurations": a.Configurations()})
	if err != nil {
		t.Fatal(err)
	}
	name := n.heartbeats(host, a.Type)
	clienttest.Write(t, name+".new", string(text))
	if err := os.Rename(name+".new", name+".json"); err != nil { // a heartbeat never has half of a file
		t.Fatal(err)
	}
}

// Stop ends the heartbeats of an agent.
func (n *Neutron) Stop(t testing.TB, host string, kind bandwidth.AgentType) {
	t.Helper()
	if err := os.Remove(n.heartbeats(host, kind) + ".json"); err != nil {
		t.Fatal(err)
	}
}

// heartbeats returns the path of the file with the state of an agent, without its ending.
func (n *Neutron) heartbeats(host string, kind bandwidth.AgentType) string {
	return filepath.Join(n.agents, host+"-"+strings.ReplaceAll(string(kind), " ", "-"))
}

// binaries are the programs of Neutron's agents.
var binaries = map[bandwidth.AgentType]string{bandwidth.OpenVSwitch: "neutron-openvswitch-agent",
	bandwidth.NICSwitch: "neutron-sriov-nic-agent"}

// configuration returns a neutron.conf that also has the options of ML2.
func configuration(c *clienttest.Cloud, dir, addr, rabbit, database string) string {
	host, port, _ := strings.Cut(addr, ":")
	account := fmt.Sprintf(`auth_type = password
auth_url = %s
username = neutron
password = neutron
project_name = service
user_domain_name = Default
project_domain_name = Default`, c.URL)
	return fmt.Sprintf(`[DEFAULT]
bind_host = %[2]s
bind_port = %[3]s
state_path = %[1]s
transport_url = %[4]s
core_plugin = ml2
service_plugins = qos,placement,segments,revisions,timestamp,tag
api_workers = 1
rpc_workers = 1
rpc_state_report_workers = 0
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = true
send_events_interval = 0
use_stderr = true
graceful_shutdown_timeout = 1
api_paste_config = /etc/neutron/api-paste.ini
[ml2]
type_drivers = flat,vlan
tenant_network_types = vlan
mechanism_drivers = openvswitch,sriovnicswitch
extension_drivers = port_security,qos
[ml2_type_vlan]
network_vlan_ranges = physnet0:100:199,physnet1:100:199
[ovs_driver]
vnic_type_prohibit_list = direct
[database]
connection = %[5]s
[oslo_concurrency]
lock_path = %[1]s/lock
[oslo_policy]
policy_dirs = %[1]s/policy.d
[keystone_authtoken]
www_authenticate_uri = %[6]s
%[7]s
[nova]
region_name = %[8]s
%[7]s
[placement]
region_name = %[8]s
%[7]s
`, dir, host, port, rabbit, database, c.URL, account, c.Region)
}
