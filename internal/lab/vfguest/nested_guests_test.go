//go:build nested

package vfguest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
)

// nestedOptions continue the section [pci]: two VFs of an NVMe PF have an alias, and guests are those of libvirt.
const nestedOptions = `device_spec = {"address": "0000:11:00.1"}
device_spec = {"address": "0000:11:00.2"}
alias = {"name": "disk", "vendor_id": "1b36", "product_id": "0010", "device_type": "type-VF"}
[filter_scheduler]
pci_in_placement = true
[DEFAULT]
compute_driver = libvirt.LibvirtDriver
instances_path = ` + instances + `
shutdown_timeout = 0
[libvirt]
virt_type = qemu
[glance]
endpoint_override = http://127.0.0.1:9292
`

// pattern is what the namespace of the NVMe VFs begins with; gateway is the address of the counterpart on the wire.
const (
	pattern = "a-disk-of-a-VF-7"
	gateway = "10.7.0.254"
)

// program runs in a guest. It reads the disk and gets answers from the counterpart, again and again. Its first argument
// is the guest's address.
const program = `#!/bin/sh
until [ -e /dev/nvme0n1 ]; do sleep 1; done
for link in /sys/class/net/*; do
	[ "${link##*/}" = lo ] || ip address add %s/24 dev "${link##*/}"
done
use() {
	n=0
	while :; do
		if ping -c 1 -W 5 ` + gateway + ` >/dev/null; then
			n=$((n + 1))
			echo "use: $n answers, disk has $(dd if=/dev/nvme0n1 bs=512 count=1 iflag=direct 2>/dev/null | head -c 16)"
		fi
		sleep 2
	done
}
use &
`

// nested is a server whose guest has one VF by its port and one by its flavor's alias.
type nested struct {
	id, nic, disk string
	port          network.Port
}

// TestNestedGuests gives VFs of NICs and disks to guests of libvirt, which use them, and then a dedicated CPU and huge
// pages of a node to another one.
func TestNestedGuests(t *testing.T) {
	m := &machine{t: t}
	m.phase("the lab has booted")
	m.mountFiles()
	m.onlineDisks(pfDisk, 1, 2)
	must(t, os.WriteFile(m.disk(pfDisk), []byte(pattern+strings.Repeat("\x00", 512-len(pattern))), 0))
	m.phase("the NVMe VFs are disks")
	m.reservePages(40)
	virt := newLibvirtd(m)
	m.phase("libvirtd answers")
	before := m.since
	m = startWith(t, nestedOptions, map[string]string{"placement": "8778", "compute": "8774", "network": "9696",
		"image": "9292"}, []string{first, second})
	m.since = before
	virt.m = m
	net := m.prepare(first)
	m.counterpart(third, 7, gateway+"/24")
	m.addImageAndFlavor()
	m.phase("the services and the agent run, and the image is uploaded")

	one := m.createNested("one", net)
	m.tillActive(&one)
	m.phase("the first server is ACTIVE")

	// kill -9 of both, in each order, while the guest starts: it continues, and the next server gets the other devices.
	process := m.process(one.id)
	m.killAgent()
	virt.kill()
	two := m.createNested("two", net)
	virt.start()
	m.startAgent()
	m.tillActive(&two)
	m.phase("after kill -9 of the agent and libvirtd, the second server is ACTIVE")
	if one.nic == two.nic || one.disk == two.disk {
		t.Errorf("two guests have the same device: %+v, %+v", one, two)
	}
	virt.kill()
	m.killAgent()
	virt.start()
	m.startAgent() // it reports when libvirtd answers
	m.checkHolders(one, two)
	m.deleteNested(two)
	m.phase("after kill -9 of both again, the second server is deleted, and its VFs have their drivers")

	m.tillUsed(one, 3)
	m.phase("the first guest uses its devices")
	m.checkGuest(one)
	if now := m.process(one.id); now != process {
		t.Errorf("the guest's process was %d, now %d", process, now)
	}
	m.deleteNested(one)
	m.phase("the first server is deleted, and its VFs have their drivers")
	m.checkPinned()
	m.till("libvirt has no domain", func() bool { return virt.domains() == 0 })
	m.checkUnused()
}

// addImageAndFlavor uploads the image of the guests and creates their flavor.
func (m *machine) addImageAndFlavor() {
	m.t.Helper()
	ctx := m.t.Context()
	m.command("./berth", "image", "add", "guest.img", "--name", "guest", "--visibility", "public", "--image-url",
		"http://127.0.0.1:9292")
	_, err := m.compute.CreateFlavor(ctx, compute.CreateFlavor{ID: "nested", Name: "nested", VCPUs: 1, RAM: 256, Disk: 1})
	must(m.t, err)
	must(m.t, m.compute.SetExtraSpecs(ctx, "nested", map[string]string{"pci_passthrough:alias": "disk:1"}))
}

// createNested creates a server with a port and the alias.
func (m *machine) createNested(name, net string) (n nested) {
	m.t.Helper()
	images, err := image.Catalogue{REST: client("9292")}.List(m.t.Context())
	must(m.t, err)
	n.port = m.port(net, nil)
	text := fmt.Sprintf(program, n.port.FixedIPs[0].Address)
	n.id = m.createWith(name, n.port, map[string]any{"flavorRef": "nested", "imageRef": images[0].ID,
		"user_data": base64.StdEncoding.EncodeToString([]byte(text))})
	return n
}

// tillActive waits until a server is ACTIVE, and notes its devices.
func (m *machine) tillActive(n *nested) {
	m.t.Helper()
	if reason := m.tillDone(n.id); reason != "" {
		m.t.Fatalf("%s; conditions %q", reason, m.conditions())
	}
	n.nic = m.vfOf(n.port.ID)
	all, err := m.hosts.Devices(m.t.Context())
	must(m.t, err)
	for _, d := range all {
		if d.Holder == n.id && d.Address != n.nic {
			n.disk = d.Address
		}
	}
	for _, at := range []string{n.nic, n.disk} {
		if got := driver(at); got != "vfio-pci" {
			m.t.Errorf("%s of %s has the driver %q", at, n.id, got)
		}
	}
	want := vfconfig.Settings{MAC: n.port.MAC, VLAN: 7, SpoofCheck: true}
	if got := m.vf(n.nic); got != want {
		m.t.Errorf("%s has %+v, want %+v", n.nic, got, want)
	}
}

// checkHolders checks that each server holds the devices that it had, and that they have the driver of VFIO.
func (m *machine) checkHolders(servers ...nested) {
	m.t.Helper()
	for _, n := range servers {
		for _, at := range []string{n.nic, n.disk} {
			if holder, name := m.holder(at), driver(at); holder != n.id || name != "vfio-pci" {
				m.t.Errorf("%s of %s is held by %q and has the driver %q", at, n.id, holder, name)
			}
		}
	}
}

// console returns what a guest has printed.
func (m *machine) console(id string) string {
	var out struct{ Output string }
	_, err := m.compute.REST.Do(m.t.Context(), http.MethodPost, "/v2.1/servers/"+id+"/action",
		map[string]any{"os-getConsoleOutput": map[string]any{}}, &out)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable) {
		m.t.Fatal(err)
	}
	return out.Output
}

var answered = regexp.MustCompile(`use: (\d+) answers, disk has ` + pattern)

// answers returns how often a guest has received an answer from the wire and has read its disk.
func (m *machine) answers(n nested) int {
	all := answered.FindAllStringSubmatch(m.console(n.id), -1)
	if len(all) == 0 {
		return 0
	}
	count, err := strconv.Atoi(all[len(all)-1][1])
	must(m.t, err)
	return count
}

// tillUsed waits until a guest has used its devices a number of times since it started.
func (m *machine) tillUsed(n nested, times int) {
	m.t.Helper()
	m.t.Cleanup(func() {
		if m.t.Failed() {
			text, err := os.ReadFile(filepath.Join(instances, n.id, "console.log"))
			m.t.Logf("console of %s: %v\n%s", n.id, err, last(text, 200))
		}
	})
	m.within(bootPatience, fmt.Sprintf("%s has used its devices %d times", n.id, times), func() bool {
		return m.answers(n) >= times
	})
}

// devicesOfHost are the vendor and product ids of the PCI functions that the lab gives to guests.
var devicesOfHost = regexp.MustCompile(`guest: device \S+ (0x8086:0x10ca|0x1b36:0x0010)`)

// checkGuest checks that a guest started once, and found exactly its two devices and the MAC address of its port.
func (m *machine) checkGuest(n nested) {
	m.t.Helper()
	text := m.console(n.id)
	var found []string
	for _, match := range devicesOfHost.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	if !slices.Equal(found, []string{"0x1b36:0x0010", "0x8086:0x10ca"}) {
		m.t.Errorf("the guest of %s found the devices %q", n.id, found)
	}
	interfaces := regexp.MustCompile(`guest: interface \S+ (\S+)`).FindAllStringSubmatch(text, -1)
	if len(interfaces) != 1 || interfaces[0][1] != n.port.MAC {
		m.t.Errorf("the guest of %s found the interfaces %q, its port has %s", n.id, interfaces, n.port.MAC)
	}
}

// process returns the id of the process of a guest.
func (m *machine) process(id string) int {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join("/run/libvirt/qemu", "berth-"+id+".pid"))
	must(m.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(m.t, err)
	return pid
}

// deleteNested deletes a server and its port. Its devices return to their drivers, and the disk can be read again.
func (m *machine) deleteNested(n nested) {
	m.t.Helper()
	must(m.t, m.compute.DeleteServer(m.t.Context(), n.id))
	m.tillVF(n.nic, vfconfig.Unassigned())
	for at, name := range map[string]string{n.nic: "igbvf", n.disk: "nvme"} {
		m.till(at+" is free", func() bool { return m.holder(at) == "" })
		m.till(at+" has the driver "+name, func() bool { return driver(at) == name })
	}
	if got := m.begins(m.disk(n.disk), len(pattern)); got != pattern {
		m.t.Errorf("%s begins with %q", n.disk, got)
	}
	must(m.t, m.network.DeletePort(m.t.Context(), n.port.ID))
}

// checkUnused checks that nothing is allocated and that no file of a guest is left.
func (m *machine) checkUnused() {
	m.t.Helper()
	ctx := m.t.Context()
	all, err := m.placement.Providers(ctx, nil)
	must(m.t, err)
	for _, p := range all {
		m.till("nothing of "+p.Name+" is in use", func() bool {
			used, err := m.placement.Usages(ctx, p.ID)
			for _, amount := range used {
				if amount != 0 {
					return false
				}
			}
			return err == nil
		})
	}
	entries, err := os.ReadDir(instances)
	must(m.t, err)
	for _, e := range entries {
		if !slices.Contains([]string{"_base", "hosts", "lost+found"}, e.Name()) { // what all guests share
			m.t.Errorf("%s is left in %s", e.Name(), instances)
		}
	}
}
