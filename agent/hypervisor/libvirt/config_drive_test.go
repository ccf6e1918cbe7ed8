package libvirt

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
)

// The config drive has the interfaces of the guest in its order, with the addresses that are known of their ports. A
// port of which nothing is known uses DHCP; a port that the guest does not have is left out.
func TestConfigDriveHasTheAddressesOfPorts(t *testing.T) {
	d := &Driver{o: Options{FirstBoot: func(context.Context, string) (configdrive.Server, error) {
		return configdrive.Server{Interfaces: []configdrive.Interface{
			{Port: "not-of-the-guest", Addresses: []configdrive.Address{}},
			{Port: "known", MTU: 1400, Addresses: []configdrive.Address{{Method: "static", Address: "10.0.0.5",
				CIDR: "10.0.0.0/24"}}}}}, nil
	}}}
	g := hypervisortest.Guest("a")
	g.Interfaces = []hypervisor.Interface{{Port: "unknown", MAC: "fa:16:3e:00:00:01"},
		{Port: "known", MAC: "fa:16:3e:00:00:02"}}
	file := filepath.Join(t.TempDir(), "drive")
	if err := d.writeConfigDrive(t.Context(), file, g); err != nil {
		t.Fatal(err)
	}
	drive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, text := range []string{`"vif_id": "unknown"`, `"vif_id": "known"`, `"fa:16:3e:00:00:02"`, `"mtu": 1400`,
		`"ipv4_dhcp"`, `"type": "ipv4"`, `"ip_address": "10.0.0.5"`} {
		at := bytes.Index(drive, []byte(text))
		if at <= last {
			t.Errorf("%s is at %d, after %d", text, at, last)
		}
		last = at
	}
	if bytes.Contains(drive, []byte("not-of-the-guest")) {
		t.Error("the drive has a port that the guest does not have")
	}
}
