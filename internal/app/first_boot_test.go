package app

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/testenv"
)

// TestAddressesReachTheConfigDrive creates a server with a port in two subnets, and makes the config drive that the
// agent of its host makes: the addresses are static, with routes and name servers, until a DHCP server is in a subnet.
func TestAddressesReachTheConfigDrive(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newPortsLab(t)
	defer l.down()
	client := l.cloud.NetworkClient()
	port := l.addressedPort()
	s := l.create("ACTIVE", []map[string]string{{"port": port.ID}})
	drive := func() []byte {
		t.Helper()
		boot, err := firstBoot("cmp1", l.cloud.HostClient())(t.Context(), s.ID)
		if err != nil || len(boot.Interfaces) != 1 {
			t.Fatalf("%+v %v", boot, err)
		}
		boot.ID, boot.Interfaces[0].MAC = s.ID, port.MAC
		data, err := configdrive.Make(boot)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	static := drive()
	for _, text := range []string{fmt.Sprintf(`"mtu": %d`, l.net.MTU), `"network_id": "` + l.net.ID + `"`,
		`"type": "ipv4"`,
		`"ip_address": "10.2.0.77"`, `"netmask": "255.255.255.0"`, `"gateway": "10.2.0.1"`, `"network": "192.168.7.0"`,
		`"gateway": "10.2.0.254"`, `"address": "10.2.0.53"`, `"type": "ipv6"`, `"ip_address": "fd00:2::77"`,
		`"netmask": "ffff:ffff:ffff:ffff::"`} {
		if !bytes.Contains(static, []byte(text)) {
			t.Errorf("the drive has no %s", text)
		}
	}
	if bytes.Contains(static, []byte("dhcp")) {
		t.Error("no server serves DHCP, and the drive has it")
	}
	if _, err := client.CreatePort(t.Context(), map[string]any{"network_id": l.net.ID, "project_id": "admin",
		"device_owner": "network:dhcp", "fixed_ips": []network.FixedIP{{Subnet: port.FixedIPs[0].Subnet}}}); err != nil {
		t.Fatal(err)
	}
	served := drive()
	if !bytes.Contains(served, []byte(`"type": "ipv4_dhcp"`)) || bytes.Contains(served, []byte("10.2.0.77")) ||
		!bytes.Contains(served, []byte(`"ip_address": "fd00:2::77"`)) {
		t.Error("DHCP is served in the subnet of IPv4 alone, and the drive does not say that")
	}
}

// addressedPort creates a subnet of each version of IP, and a port with one address of each.
func (l *portsLab) addressedPort() network.Port {
	l.t.Helper()
	client, ctx := l.cloud.NetworkClient(), l.t.Context()
	four, err := client.CreateSubnet(ctx, map[string]any{"network_id": l.net.ID, "ip_version": 4, "cidr": "10.2.0.0/24",
		"project_id": "admin", "dns_nameservers": []string{"10.2.0.53"},
		"host_routes": []network.Route{{Destination: "192.168.7.0/24", NextHop: "10.2.0.254"}}})
	if err != nil {
		l.t.Fatal(err)
	}
	six, err := client.CreateSubnet(ctx, map[string]any{"network_id": l.net.ID, "ip_version": 6, "cidr": "fd00:2::/64",
		"project_id": "admin", "enable_dhcp": false})
	if err != nil {
		l.t.Fatal(err)
	}
	p, err := client.CreatePort(ctx, map[string]any{"network_id": l.net.ID, "project_id": "admin",
		"fixed_ips": []network.FixedIP{{Subnet: four.ID, Address: "10.2.0.77"}, {Subnet: six.ID, Address: "fd00:2::77"}}})
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}
