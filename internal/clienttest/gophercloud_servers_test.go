package clienttest

import (
	"errors"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/openberth/berth/internal/testenv"
)

// useServersOfGophercloud creates a server with a port and an address of a network, attaches and detaches another port,
// and deletes the server.
func useServersOfGophercloud(t *testing.T, c *Cloud) {
	ctx := t.Context()
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: c.URL + "/v3",
		Username: c.AdminUser, Password: c.AdminPassword, TenantName: c.AdminProject, DomainID: "default"})
	must(t, err)
	compute, err := openstack.NewComputeV2(provider, gophercloud.EndpointOpts{Region: c.Region})
	must(t, err)
	client, err := openstack.NewNetworkV2(provider, gophercloud.EndpointOpts{Region: c.Region})
	must(t, err)
	network, err := networks.Create(ctx, client, networks.CreateOpts{Name: "gopher"}).Extract()
	must(t, err)
	_, err = subnets.Create(ctx, client, subnets.CreateOpts{NetworkID: network.ID, IPVersion: gophercloud.IPv4,
		CIDR: "198.51.100.0/24"}).Extract()
	must(t, err)
	var port [2]*ports.Port
	for i := range port {
		port[i], err = ports.Create(ctx, client, ports.CreateOpts{NetworkID: network.ID}).Extract()
		must(t, err)
	}
	flavor, err := flavors.Create(ctx, compute, flavors.CreateOpts{Name: "gopher", VCPUs: 1, RAM: 64,
		Disk: new(int)}).Extract()
	must(t, err)
	server, err := servers.Create(ctx, compute, servers.CreateOpts{Name: "gopher", FlavorRef: flavor.ID,
		Networks: []servers.Network{{Port: port[0].ID}, {UUID: network.ID, FixedIP: "198.51.100.77"}}}, nil).Extract()
	must(t, err)
	must(t, servers.WaitForStatus(ctx, compute, server.ID, "ACTIVE"))
	attached := func() (addresses string) {
		t.Helper()
		pages, err := attachinterfaces.List(compute, server.ID).AllPages(ctx)
		must(t, err)
		list, err := attachinterfaces.ExtractInterfaces(pages)
		must(t, err)
		for _, i := range list {
			addresses += i.FixedIPs[0].IPAddress + " "
		}
		return addresses
	}
	if got := attached(); !strings.Contains(got, "198.51.100.77 ") ||
		!strings.Contains(got, port[0].FixedIPs[0].IPAddress) {
		t.Errorf("addresses %s", got)
	}
	_, err = attachinterfaces.Create(ctx, compute, server.ID, attachinterfaces.CreateOpts{PortID: port[1].ID}).Extract()
	must(t, err)
	if got := attached(); len(strings.Fields(got)) != 3 || !strings.Contains(got, port[1].FixedIPs[0].IPAddress) {
		t.Errorf("addresses %s", got)
	}
	must(t, attachinterfaces.Delete(ctx, compute, server.ID, port[1].ID).ExtractErr())
	testenv.Until(t, "the port is detached", func() error {
		if got := attached(); len(strings.Fields(got)) != 2 {
			return errors.New(got)
		}
		return nil
	})
	must(t, servers.Delete(ctx, compute, server.ID).ExtractErr())
	testenv.Until(t, "the port of the network is deleted", func() error {
		pages, err := ports.List(client, ports.ListOpts{NetworkID: network.ID}).AllPages(ctx)
		must(t, err)
		list, err := ports.ExtractPorts(pages)
		must(t, err)
		if len(list) != 2 || list[0].DeviceID != "" || list[1].DeviceID != "" {
			return errors.New("ports are left")
		}
		return nil
	})
	for _, p := range port {
		must(t, ports.Delete(ctx, client, p.ID).ExtractErr())
	}
	must(t, networks.Delete(ctx, client, network.ID).ExtractErr())
}
