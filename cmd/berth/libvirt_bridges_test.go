package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/linuxguest"
	"github.com/openberth/berth/internal/testenv"
)

// routedCloud is the configuration of a cloud on one machine whose networks are routed by the machine itself.
const routedCloud = "[vxlan]\nlocal_ip = 192.0.2.1\n[ml2]\ntenant_network_types = vxlan\n" +
	"[ml2_type_vxlan]\nvni_ranges = 100:199\n"

// bridgedCloud is `berth up` in the network of a libvirt daemon.
type bridgedCloud struct {
	*virtualSwitch
	daemon *daemon
}

// berth runs a command of the cloud that must succeed, and returns its output.
func (c bridgedCloud) berth(args ...string) string {
	c.t.Helper()
	args = append([]string{"--placement-url", c.daemon.urls["placement"], "--compute-url", c.daemon.urls["compute"],
		"--network-url", c.daemon.urls["network"], "--image-url", c.daemon.urls["image"]}, args...)
	cmd := c.InNetwork(c.t.Context(), program(c.t), args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "OS_") })
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("%q: %v: %s%s\n%s", args, err, out.String(), errs.String(), c.daemon.log)
	}
	return out.String()
}

// The commands of the guide make a server in a network that nothing but Berth serves: its guest of libvirt asks for
// its address by DHCP, is reached by ssh from its host, and reads its metadata. After the delete nothing of the
// network is left on the host.
func TestLibvirtGuestOnRoutedNetwork(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "nft", "dnsmasq")
	c := bridgedCloud{virtualSwitch: &virtualSwitch{t, libvirtd.Start(t)}}
	c.inNetwork("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
	c.inNetwork("ip", "link", "set", "up1", "up")
	c.inNetwork("ip", "address", "add", "192.0.2.1/24", "dev", "up0")
	c.inNetwork("ip", "link", "set", "up0", "up")
	c.inNetwork("ip", "link", "set", "lo", "up")
	dir := t.TempDir()
	conf := filepath.Join(dir, "berth.conf")
	must(t, os.WriteFile(conf, []byte("[DEFAULT]\nhost = routed\ncompute_driver = libvirt\ninstances_path = "+
		c.GuestDir(t)+"\nshutdown_timeout = 0\n[libvirt]\nvirt_type = qemu\nconnection_uri = qemu+unix:///system?socket="+
		c.Socket+"\n[oslo_concurrency]\nlock_path = "+filepath.Join(dir, "locks")+"\n"+routedCloud), 0o600))
	c.daemon = startCommand(t, []string{"placement", "compute", "network", "image"}, c.InNetwork(t.Context(), program(t),
		"up", "--config-file", conf, "--data-dir", filepath.Join(dir, "data"), "--listen-placement", "127.0.0.1:0",
		"--listen-compute", "127.0.0.1:0", "--listen-network", "127.0.0.1:0", "--listen-image", "127.0.0.1:0"))
	raw, key := filepath.Join(dir, "disk.img"), filepath.Join(dir, "key")
	must(t, linuxguest.Build(t.Context(), raw))
	c.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	c.berth("keypair", "create", "me", "--public-key", key+".pub")
	c.berth("flavor", "create", "small", "--vcpus", "1", "--ram", "256", "--disk", "1")
	c.berth("image", "add", raw, "--name", "debian")
	for _, block := range regexp.MustCompile("(?s)\n```sh routed\n(.*?)```").FindAllStringSubmatch(guide(t), -1) {
		for line := range strings.Lines(block[1]) {
			words := strings.Fields(line)
			if words[0] != "berth" {
				t.Fatalf("%q is not a command of berth; adapt this test", line)
			}
			c.berth(words[1:]...)
		}
	}
	c.berth("port", "delete", "web0")
	c.berth("security-group", "rule", "add", "ssh", "--protocol", "icmp")
	var server struct {
		ID        string
		Status    string
		Addresses map[string][]struct{ Addr string }
	}
	testenv.Until(t, "the server is ACTIVE", func() (bool, error) {
		text := c.berth("-o", "json", "server", "show", "web")
		must(t, json.Unmarshal([]byte(text), &server))
		return server.Status == "ACTIVE", errors.New(text)
	})
	address := server.Addresses["lan"][0].Addr
	c.answersPing(address)
	for command, want := range map[string]string{
		"hostname": "web",
		"udhcpc -f -n -q -i $(ls /sys/class/net | grep -v lo | head -n 1) -s /bin/true 2>&1":   "lease of " + address,
		"wget -q -O - http://169.254.169.254/latest/meta-data/instance-id":                     server.ID,
		"wget -q -O - http://169.254.169.254/openstack/latest/meta_data.json | grep -c ssh-ed": "2",
		"wget -q -T 2 -O - http://10.20.0.1:8774/ 2>&1 || echo refused":                        "refused",
	} {
		if got := c.ssh(key, address, command); !strings.Contains(got, want) {
			t.Errorf("%s in the guest: %q, want %q", command, got, want)
		}
	}
	c.berth("server", "delete", "web", "--wait")
	testenv.Until(t, "nothing of the network is left", func() (bool, error) {
		left := c.inNetwork("ip", "-o", "link") + c.inNetwork("nft", "list", "tables")
		servers, _ := os.ReadDir("/run/berth-networks/routed")
		return !strings.Contains(left, "brq") && !strings.Contains(left, "vxlan-") && !strings.Contains(left, "tap") &&
			!strings.Contains(left, "berth_networks") && len(servers) == 0, errors.New(left)
	})
	c.daemon.stop(t)
}
