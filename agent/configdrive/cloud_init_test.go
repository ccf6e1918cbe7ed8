package configdrive

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// TestCloudInit lets Debian's cloud-init read a drive, as at the first boot of a cloud image: the guest has its host
// name, its key, its static addresses and routes, its user data have run, and it knows its tagged devices. The
// renderers for the other distributions have the addresses, too.
func TestCloudInit(t *testing.T) {
	testenv.Need(t, "apt-get", "bsdtar", "unshare")
	s := full
	s.UserData = []byte("#!/bin/sh\necho ran on $(hostname) >/run/user-data\n")
	found := bootWithCloudInit(t, s)
	for section, patterns := range map[string][]string{
		"status":    {`status: done`, `DataSourceConfigDrive \[net,ver=2\]\[source=/dev/vdb\]`},
		"hostname":  {`^web-server-1\nweb-server-1$`},
		"keys":      {`^ssh-ed25519 AAAA ann@example$`},
		"user-data": {`^ran on web-server-1$`},
		"addresses": {`inet 10\.0\.0\.5/22 `, `inet6 2001:db8::5/64 `, `mtu 1500 `},
		"routes": {`default via 10\.0\.0\.1 `, `192\.168\.7\.0/24 via 10\.0\.0\.254 `, `default via 2001:db8::1 `,
			`2001:db8:7::/48 via 2001:db8::fe `},
		"interfaces": {`dns-nameservers 10\.0\.0\.2 10\.0\.0\.3`, `iface eth0 inet dhcp\n +mtu 1450\n`,
			`iface eth2 inet manual`, `iface eth3\.7 inet dhcp\n(.*\n)* +vlan_id 7`, `iface eth3\.7 inet6 auto`},
		"netplan": {`addresses:\n +- 10\.0\.0\.5/22\n +- 2001:db8::5/64\n`, `to: 192\.168\.7\.0/24\n +via: 10\.0\.0\.254`,
			`macaddress: fa:16:3e:00:00:02`, `id: 7\n +link: eth3`},
		"networkd": {`Address=10\.0\.0\.5/22`, `Address=2001:db8::5/64`, `DNS=10\.0\.0\.2 10\.0\.0\.3 2001:db8::53`,
			`Destination=192\.168\.7\.0/24\n+Gateway=10\.0\.0\.254`},
		"sysconfig": {`HWADDR=fa:16:3e:00:00:02\nIPADDR=10\.0\.0\.5\nIPV6ADDR=2001:db8::5/64`, `GATEWAY=10\.0\.0\.1\n`,
			`NETMASK=255\.255\.252\.0`, `ADDRESS0=192\.168\.7\.0\nGATEWAY0=10\.0\.0\.254`},
		"network-manager": {`address1=10\.0\.0\.5/22`, `address1=2001:db8::5/64`, `mac-address=FA:16:3E:00:00:02`},
		"warnings":        {`^$`},
	} {
		for _, pattern := range patterns {
			if !regexp.MustCompile(pattern).MatchString(found[section]) {
				t.Errorf("%s does not match %s:\n%s", section, pattern, found[section])
			}
		}
	}
	t.Logf("version %s", found["version"])
	wantTaggedDevices(t, found["metadata"], s.Interfaces)
}

// wantTaggedDevices checks the metadata that cloud-init offers to programs in the guest.
func wantTaggedDevices(t *testing.T, text string, interfaces []Interface) {
	t.Helper()
	var metadata struct {
		Instance string `json:"instance-id"`
		Devices  []nic  `json:"devices"`
		Meta     map[string]string
	}
	if err := json.Unmarshal([]byte(text), &metadata); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if metadata.Instance != full.ID || !reflect.DeepEqual(metadata.Meta, full.Metadata) ||
		!reflect.DeepEqual(metadata.Devices, devicesOf(interfaces)) || len(metadata.Devices) == 0 ||
		!reflect.DeepEqual(metadata.Devices[0], nic{Type: "nic", MAC: "fa:16:3e:00:00:01", Bus: "pci",
			Address: "0000:01:00.0", Tags: []string{"uplink"}}) {
		t.Errorf("got %s", text)
	}
}

// bootWithCloudInit runs the first boot of a server, and returns the sections of its result. See the script for what is
// real.
func bootWithCloudInit(t *testing.T, s Server) map[string]string {
	t.Helper()
	drive, err := Make(s)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, root := filepath.Join(dir, "drive"), filepath.Join(dir, "root")
	if err := os.WriteFile(file, drive, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("LAB_CACHE")
	if cache == "" {
		if cache, err = os.UserCacheDir(); err != nil {
			cache = os.TempDir()
		}
	}
	arguments := []string{"testdata/boot-with-cloud-init.sh", file, filepath.Join(cache, "cloud-init"), root}
	for _, i := range s.Interfaces {
		arguments = append(arguments, i.MAC)
	}
	cmd := exec.CommandContext(t.Context(), "sh", arguments...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v; the test needs root and Debian: %s\n%s", err, stderr.String(), out)
	}
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+string(out), "\n== ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = strings.TrimSpace(text)
	}
	return sections
}
