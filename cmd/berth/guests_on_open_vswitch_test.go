package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/linuxguest"
	"github.com/openberth/berth/internal/testenv"
)

// networkChapter is the guide's chapter on networks of guests.
const networkChapter = "Guests on a network"

// Debian's openstack client runs the commands of the guide: it creates a server with an image, a flavor, two networks
// and a key pair at a cloud of one process, without any other OpenStack service. The guest of libvirt is connected to
// Open vSwitch, in a flat network and in a VLAN: it has the addresses that the client shows, the MAC addresses of its
// ports and its host name, and its user logs in by ssh with the private key. After the delete Open vSwitch has no port
// of it.
func TestOpenStackClientStartsGuestOnOpenVSwitch(t *testing.T) {
	t.Parallel()
	v := &virtualSwitch{t, libvirtd.StartOpenVSwitch(t)}
	v.prepareHost(guideBlocks(t, "openvswitch")[0])
	_, d := startLibvirtCloudOn(t, v.Daemon, "[ovs]\nbridge_mappings = physnet0:"+libvirtd.OpenVSwitchBridge+"\n")
	cloud, dir := withoutCatalog(t, d), t.TempDir()
	raw, key := filepath.Join(dir, "disk.img"), filepath.Join(dir, "key")
	must(t, linuxguest.Build(t.Context(), raw))
	v.run("qemu-img", "convert", "-O", "qcow2", raw, filepath.Join(dir, "disk.qcow2"))
	v.connectHost()
	commands := 0
	for line := range strings.Lines(guideChapter(t, networkChapter)) {
		arguments, is := strings.CutPrefix(line, "openstack ")
		if !is {
			continue
		}
		commands++
		command := cloud.openstackCommand(t, strings.Fields(arguments)...)
		command.Dir = dir
		v.output(command)
	}
	if commands != 9 {
		t.Fatalf("the chapter has %d commands", commands)
	}
	var server struct {
		Status    string
		Addresses map[string][]string
	}
	must(t, json.Unmarshal([]byte(cloud.openstack(t, "server", "show", "web", "-f", "json")), &server))
	if server.Status != "ACTIVE" || len(server.Addresses["lan"]) != 1 || len(server.Addresses["prod"]) != 1 {
		t.Fatalf("%+v", server)
	}
	taps := map[string]string{"lan": "0", "prod": "100"} // the VLAN of each network, then the TAP of its port
	for network, vlan := range taps {
		port := v.portOf(cloud, network)
		taps[network] = "tap" + port.ID[:11]
		v.answersPing(server.Addresses[network][0])
		if got := v.neighbour(server.Addresses[network][0]); got != port.MAC {
			t.Errorf("the address in %s belongs to %s, the port has %s", network, got, port.MAC)
		}
		if got := v.run("ovs-vsctl", "get", "Port", taps[network], "tag"); got != vlan {
			t.Errorf("the interface in %s has the VLAN %s, want %s", network, got, vlan)
		}
	}
	v.dropsFramesOfVLAN("100", taps["lan"])
	must(t, os.Chmod(key, 0o600)) // ssh refuses the file as the client writes it
	if got := v.ssh(key, server.Addresses["lan"][0], "hostname"); got != "web" {
		t.Errorf("the host name is %q", got)
	}
	cloud.openstack(t, "server", "delete", "web", "--wait")
	for network, tap := range taps {
		if ports := v.run("ovs-vsctl", "list-ports", libvirtd.OpenVSwitchBridge); strings.Contains(ports, tap) {
			t.Errorf("Open vSwitch still has the port in %s: %s", network, ports)
		}
		if out, err := v.InNetwork(t.Context(), "ip", "link", "show", tap).CombinedOutput(); err == nil {
			t.Errorf("the host still has the interface in %s: %s", network, out)
		}
	}
	d.stop(t)
}

// virtualSwitch is Open vSwitch beside the libvirt daemon of a test.
type virtualSwitch struct {
	t *testing.T
	*libvirtd.Daemon
}

// prepareHost executes the guide's commands for a host, whose packages must be installed. The bridge gets the datapath
// in user space, which needs no module of the kernel.
func (v *virtualSwitch) prepareHost(script string) {
	v.t.Helper()
	v.run("ovs-vsctl", "del-br", libvirtd.OpenVSwitchBridge)
	v.inNetwork("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "lan1")
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if requireInstalled(v.t, words) {
			continue
		}
		v.run(words[0], words[1:]...)
	}
	v.run("ovs-vsctl", "set", "Bridge", libvirtd.OpenVSwitchBridge, "datapath_type=netdev")
	if ports := v.run("ovs-vsctl", "list-ports", libvirtd.OpenVSwitchBridge); ports != "eth1" {
		v.t.Fatalf("the bridge has the ports %q", ports)
	}
}

// connectHost gives the host of the guests an address in the flat network and one in the VLAN 100.
func (v *virtualSwitch) connectHost() {
	v.t.Helper()
	v.run("ovs-vsctl", "add-port", libvirtd.OpenVSwitchBridge, "vlan100", "tag=100", "--", "set", "Interface", "vlan100",
		"type=internal")
	for link, address := range map[string]string{libvirtd.OpenVSwitchBridge: "10.0.0.1/24", "vlan100": "10.1.0.254/24"} {
		v.inNetwork("ip", "address", "add", address, "dev", link)
		v.inNetwork("ip", "link", "set", link, "up")
	}
}

// run runs a command that sees the files of Open vSwitch, and returns its output.
func (v *virtualSwitch) run(name string, arguments ...string) string {
	v.t.Helper()
	return v.output(v.Command(v.t.Context(), name, arguments...))
}

// inNetwork runs a command in the network of the host, and returns its output.
func (v *virtualSwitch) inNetwork(name string, arguments ...string) string {
	v.t.Helper()
	return v.output(v.InNetwork(v.t.Context(), name, arguments...))
}

func (v *virtualSwitch) output(command *exec.Cmd) string {
	v.t.Helper()
	out, err := command.Output()
	if err != nil {
		exit, _ := errors.AsType[*exec.ExitError](err)
		v.t.Fatalf("%q: %v: %s%s", command.Args, err, out, exit.Stderr)
	}
	return strings.TrimSpace(string(out))
}

// guestPort is a port as the client lists it.
type guestPort struct {
	ID  string
	MAC string `json:"MAC Address"`
}

// portOf returns the port of a server in a network.
func (v *virtualSwitch) portOf(cloud login, network string) guestPort {
	v.t.Helper()
	var ports []guestPort
	text := cloud.openstack(v.t, "port", "list", "--network", network, "-f", "json")
	if err := json.Unmarshal([]byte(text), &ports); err != nil || len(ports) != 1 {
		v.t.Fatalf("%v: %s", err, text)
	}
	return ports[0]
}

// answersPing waits until a guest answers at an address.
func (v *virtualSwitch) answersPing(address string) {
	v.t.Helper()
	testenv.Until(v.t, "the guest answers at "+address, func() (bool, error) {
		out, err := v.InNetwork(v.t.Context(), "busybox", "ping", "-c", "1", "-W", "1", address).CombinedOutput()
		return err == nil, fmt.Errorf("%w: %s", err, out)
	})
}

// neighbour returns the MAC address that has answered for an address.
func (v *virtualSwitch) neighbour(address string) string {
	v.t.Helper()
	fields := strings.Fields(v.inNetwork("ip", "neighbour", "show", address))
	for i, field := range fields[:max(0, len(fields)-1)] {
		if field == "lladdr" {
			return fields[i+1]
		}
	}
	v.t.Fatalf("no neighbour has the address %s: %q", address, fields)
	return ""
}

// dropsFramesOfVLAN checks that the bridge drops a frame with the tag of a VLAN from a port.
func (v *virtualSwitch) dropsFramesOfVLAN(vlan, port string) {
	v.t.Helper()
	number := v.run("ovs-vsctl", "get", "Interface", port, "ofport")
	trace := v.run("ovs-appctl", "-t", libvirtd.OpenVSwitchControl, "ofproto/trace", libvirtd.OpenVSwitchBridge,
		"in_port="+number+",dl_vlan="+vlan+",dl_dst=ff:ff:ff:ff:ff:ff")
	if !strings.HasSuffix(trace, "Datapath actions: drop") {
		v.t.Errorf("a frame of VLAN %s from %s is not dropped: %s", vlan, port, trace)
	}
}

// ssh runs a command in a guest, as root, and returns its output.
func (v *virtualSwitch) ssh(key, address, command string) (output string) {
	v.t.Helper()
	testenv.Until(v.t, "root logs in at "+address, func() (bool, error) {
		out, err := v.InNetwork(v.t.Context(), "ssh", "-i", key, "-o", "BatchMode=yes", "-o", "ConnectTimeout=20",
			"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "root@"+address,
			command).CombinedOutput()
		output = strings.TrimSpace(string(out))
		return err == nil, fmt.Errorf("%w: %s", err, out)
	})
	return output
}
