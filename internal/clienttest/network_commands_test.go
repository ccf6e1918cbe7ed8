package clienttest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsbinding"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/qos/policies"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/qos/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// networkTable is the table of the `openstack` commands for networks.
const networkTable = "../../docs/openstack-network-commands.md"

// TestNetworkCommands executes the lines of testdata/openstack-network-commands.txt in real clients against a real
// `berth up`. Each command of the table in docs/openstack-network-commands.md must succeed. Then it uses gophercloud.
func TestNetworkCommands(t *testing.T) {
	c := Start(t)
	address := c.StartNetwork(t)
	c.reportNetworkAgent(t, address)
	c.User(t, "ann", "p1", "member")
	all, _ := c.performSteps(t, "testdata/openstack-network-commands.txt", strings.NewReplacer())
	rows := readTable(t, networkTable)
	succeeded := map[string]bool{}
	for _, s := range all {
		if !s.fails {
			succeeded[verbOf(s.text, rows)] = true
		}
	}
	for verb := range rows {
		if !succeeded[verb] {
			t.Errorf("%s has %q, and no line with it succeeds", networkTable, verb)
		}
	}
	for verb := range succeeded {
		if verb == "" {
			t.Errorf("%s has no row for a line that succeeds", networkTable)
		}
	}
	t.Run("guide", func(t *testing.T) { runGuide(t, c) })
	t.Run("servers", func(t *testing.T) {
		c.reportNetworkAgent(t, address) // the lines have deleted it
		disk := filepath.Join(t.TempDir(), "disk")
		Write(t, disk, "the data of a disk")
		c.performSteps(t, "testdata/openstack-server-port-commands.txt", strings.NewReplacer("$DISK", disk))
	})
	t.Run("gophercloud", func(t *testing.T) { useGophercloud(t, c) })
	t.Run("gophercloud servers", func(t *testing.T) { useServersOfGophercloud(t, c) })
}

// runGuide executes the commands of the guide's chapter about networks.
func runGuide(t *testing.T, c *Cloud) {
	text, err := os.ReadFile("../../docs/guide/4-networks.md")
	must(t, err)
	_, chapter, _ := strings.Cut(string(text), "\n## Networks and ports\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	client, commands := startShellWith(t, c.Credentials(c.Region)...), 0
	for line := range strings.Lines(chapter) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "openstack ")
		if !ok {
			continue
		}
		s := clientStep{text: command}
		if !strings.Contains(command, " delete ") {
			s.text += " -f json"
		}
		if strings.HasPrefix(command, "port show") {
			s.parts = []string{"NET_BW_EGR_KILOBIT_PER_SEC", "CUSTOM_VNIC_TYPE_DIRECT", "1000000"}
		}
		perform(t, client, &s)
		commands++
	}
	if commands < 7 {
		t.Errorf("the chapter has %d commands", commands)
	}
}

// useGophercloud creates, changes and deletes a network, a subnet, a policy and a port with gophercloud.
func useGophercloud(t *testing.T, c *Cloud) {
	ctx := t.Context()
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: c.URL + "/v3",
		Username: c.AdminUser, Password: c.AdminPassword, TenantName: c.AdminProject, DomainID: "default"})
	must(t, err)
	client, err := openstack.NewNetworkV2(provider, gophercloud.EndpointOpts{Region: c.Region})
	must(t, err)
	network, err := networks.Create(ctx, client, networks.CreateOpts{Name: "net"}).Extract()
	must(t, err)
	subnet, err := subnets.Create(ctx, client, subnets.CreateOpts{NetworkID: network.ID, IPVersion: gophercloud.IPv4,
		CIDR: "198.51.100.0/24"}).Extract()
	must(t, err)
	policy, err := policies.Create(ctx, client, policies.CreateOpts{Name: "p"}).Extract()
	must(t, err)
	_, err = rules.CreateMinimumBandwidthRule(ctx, client, policy.ID, rules.CreateMinimumBandwidthRuleOpts{MinKBps: 100,
		Direction: "egress"}).ExtractMinimumBandwidthRule()
	must(t, err)
	var port struct {
		ports.Port
		portsbinding.PortsBindingExt
	}
	must(t, ports.Create(ctx, client, policies.PortCreateOptsExt{QoSPolicyID: policy.ID,
		CreateOptsBuilder: ports.CreateOpts{NetworkID: network.ID, Name: "port"}}).ExtractInto(&port))
	var read struct {
		Request struct {
			Groups []struct{ ID string } `json:"request_groups"`
		} `json:"resource_request"`
	}
	must(t, ports.Get(ctx, client, port.ID).ExtractInto(&read))
	if len(port.FixedIPs) != 1 || port.FixedIPs[0].SubnetID != subnet.ID || port.FixedIPs[0].IPAddress != "198.51.100.2" ||
		port.VIFType != "unbound" || len(read.Request.Groups) != 1 {
		t.Errorf("port %+v, request %+v", port, read)
	}
	pages, err := ports.List(client, ports.ListOpts{NetworkID: network.ID, Limit: 1}).AllPages(ctx)
	must(t, err)
	if found, err := ports.ExtractPorts(pages); err != nil || len(found) != 1 || found[0].ID != port.ID {
		t.Errorf("ports %+v %v", found, err)
	}
	err = networks.Delete(ctx, client, network.ID).ExtractErr()
	if refused, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); !ok ||
		refused.Actual != http.StatusConflict || !strings.Contains(string(refused.Body), "NetworkInUse") {
		t.Errorf("a network with a port: %v", err)
	}
	must(t, ports.Delete(ctx, client, port.ID).ExtractErr())
	must(t, policies.Delete(ctx, client, policy.ID).ExtractErr())
	must(t, networks.Delete(ctx, client, network.ID).ExtractErr())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
