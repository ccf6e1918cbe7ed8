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
			{Port: "known", MTU: 1400, Device: configdrive.Device{Tag: "uplink"},
				Addresses: []configdrive.Address{{Method: "static", Address: "10.0.0.5",
					CIDR: "10.0.0.0/24"}}}}}, nil
	}}}
	g := hypervisortest.Guest("a")
	g.Interfaces = []hypervisor.Interface{{Port: "unknown", MAC: "fa:16:3e:00:00:01", VLAN: 5},
		{Port: "known", MAC: "fa:16:3e:00:00:02"}}
	file := filepath.Join(t.TempDir(), "drive")
	if err := d.writeConfigDrive(t.Context(), file, g, map[string]string{"known": "0000:01:00.0"}); err != nil {
		t.Fatal(err)
	}
	drive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, text := range []string{`"vif_id": "unknown"`, `"vif_id": "known"`,
		`"ethernet_mac_address": "fa:16:3e:00:00:02"`, `"mtu": 1400`,
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
	_, devices, _ := bytes.Cut(drive, []byte(`"devices": [`))
	devices, _, _ = bytes.Cut(devices, []byte("\n}\n"))
	for _, text := range []string{`"mac": "fa:16:3e:00:00:02"`, `"address": "0000:01:00.0"`, `"uplink"`} {
		if !bytes.Contains(devices, []byte(text)) {
			t.Errorf("the devices have no %s: %s", text, devices)
		}
	}
	if bytes.Contains(devices, []byte("fa:16:3e:00:00:01")) {
		t.Error("the devices have an interface without a tag; its VLAN is added by a bridge")
	}
}
