package domainxml

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/pci"
)

var update = flag.Bool("update", false, "write the golden files")

const id = "3f0c6f0e-55f2-4f5c-8b0e-7d1f0c8f1a2b"

func at(t testing.TB, text string) device.ID {
	t.Helper()
	address, err := pci.ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return device.PCI(address)
}

// cases are guests and hosts, by the name of their golden file.
func cases(t testing.TB) map[string]Domain {
	t.Helper()
	tcg := Host{Arch: "x86_64", Machine: "q35"}
	plain := hypervisor.Guest{ID: id, Name: "web", VCPUs: 2, MemoryMB: 512, DiskGB: 10}
	out := map[string]Domain{}
	for name, c := range map[string]struct {
		host  Host
		guest hypervisor.Guest
		files Files
	}{
		"plain": {tcg, plain, Files{Disk: "/var/lib/berth/disk.qcow2", ConfigDrive: "/var/lib/berth/config.iso",
			ConsoleLog: "/var/lib/berth/console.log"}},
		"kvm": {Host{KVM: true, Arch: "x86_64", Machine: "q35"}, plain, Files{}},
		"kernel": {Host{Arch: "x86_64", Machine: "q35", CPUModel: "qemu64"}, plain,
			Files{Kernel: "/boot/vmlinuz", Initrd: "/boot/initrd", Cmdline: "console=ttyS0 a=\"<b>\""}},
		"devices": {tcg, hypervisor.Guest{ID: id, Server: "5b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", VCPUs: 1, MemoryMB: 64,
			Build: 3, Devices: []hypervisor.Device{
				{ID: at(t, "0000:3b:00.1"), Request: "r1", Provider: "4c2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b"},
				{ID: at(t, "10000:00:1f.7"), Request: "r2", Unmanaged: true}}}, Files{}},
		"ports": {tcg, hypervisor.Guest{ID: id, VCPUs: 1, MemoryMB: 64,
			Devices: []hypervisor.Device{{ID: at(t, "0000:3b:00.1"), Request: "r1"}},
			Interfaces: []hypervisor.Interface{
				{Port: "6b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:01", VIF: "bridge", VNIC: "normal",
					Bridge: "br0", MTU: 1450},
				{Port: "7b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:02", VIF: "ovs", VNIC: "normal"},
				{Port: "9b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:04", VIF: "ovs", VNIC: "normal",
					Bridge: "br-ex", VLAN: 100},
				{Port: "ab2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:05", VIF: "ovs", VNIC: "normal",
					Bridge: "br-ex", VLAN: hypervisor.Untagged},
				{Port: "8b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:03", VIF: "hw_veb", VNIC: "direct",
					VLAN: 100, Device: at(t, "0000:3b:00.1")}}}, Files{}},
		"remote-managed": {tcg, hypervisor.Guest{ID: id, VCPUs: 1, MemoryMB: 64,
			Devices: []hypervisor.Device{{ID: at(t, "0000:3b:00.1"), Request: "r1"}},
			Interfaces: []hypervisor.Interface{{Port: "6b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:01",
				VIF: "ovs", VNIC: "remote-managed", Device: at(t, "0000:3b:00.1")}}}, Files{}},
		"hardware": {tcg, hypervisor.Guest{ID: id, VCPUs: 1, MemoryMB: 64, DiskGB: 1,
			Hardware: hypervisor.Hardware{Machine: "pc-q35-6.2", DiskBus: "scsi", NICModel: "e1000", Video: "vga",
				GuestAgent: true},
			Interfaces: []hypervisor.Interface{{Port: "6b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:01",
				VIF: "bridge", VNIC: "normal", Bridge: "br0"}}},
			Files{Disk: "/var/lib/berth/disk.qcow2", ConfigDrive: "/var/lib/berth/config.iso"}},
		"uefi": {tcg, hypervisor.Guest{ID: id, VCPUs: 1, MemoryMB: 64, Hardware: hypervisor.Hardware{Firmware: "uefi"}},
			Files{Firmware: Firmware{Loader: "/usr/share/OVMF/OVMF_CODE_4M.fd", NVRAM: "/var/lib/berth/nvram-0.fd"}}},
		"secure-boot": {tcg, hypervisor.Guest{ID: id, VCPUs: 1, MemoryMB: 64,
			Hardware: hypervisor.Hardware{Firmware: "uefi", SecureBoot: "required"}},
			Files{Firmware: Firmware{Loader: "/usr/share/OVMF/OVMF_CODE_4M.ms.fd",
				NVRAM: "/var/lib/berth/nvram-0-secure.fd", Secure: true}}},
		"sata": {tcg, hypervisor.Guest{ID: id, VCPUs: 1, MemoryMB: 64, DiskGB: 1,
			Hardware: hypervisor.Hardware{DiskBus: "sata", NICModel: "e1000e", Video: "bochs"}},
			Files{Disk: "/var/lib/berth/disk.qcow2", ConfigDrive: "/var/lib/berth/config.iso"}},
		"macvtap-vdpa": {named(t), namedGuest(t), Files{}},
		"cells": {tcg, hypervisor.Guest{ID: id, VCPUs: 4, MemoryMB: 3072, Cells: []hypervisor.GuestCell{
			{VCPUs: []int{0, 2}, MemoryMB: 1024, Node: 0, CPUs: map[int]int{0: 4, 2: 5}, Emulator: []int{6}},
			{VCPUs: []int{1, 3}, MemoryMB: 2048, PageKB: 2048, Node: 1, CPUs: map[int]int{1: 8, 3: 9}}}}, Files{}},
	} {
		d, err := Make(c.host, c.guest.ID, c.guest, c.files)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = d
	}
	return out
}

// named returns a host with the names of two VFs.
func named(t testing.TB) Host {
	t.Helper()
	return Host{Arch: "x86_64", Machine: "q35", Names: map[device.ID]string{
		at(t, "0000:3b:00.1"): "ens1f0v1", at(t, "0000:3b:00.2"): "/dev/vhost-vdpa-0"}}
}

// namedGuest returns a guest with a port on each of these VFs.
func namedGuest(t testing.TB) hypervisor.Guest {
	t.Helper()
	return hypervisor.Guest{ID: id, VCPUs: 1, MemoryMB: 64,
		Devices: []hypervisor.Device{{ID: at(t, "0000:3b:00.1"), Request: "r1"}, {ID: at(t, "0000:3b:00.2"), Request: "r2"}},
		Interfaces: []hypervisor.Interface{
			{Port: "6b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:01", VIF: "hw_veb", VNIC: "macvtap",
				VLAN: 100, Device: at(t, "0000:3b:00.1")},
			{Port: "7b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:02", VIF: "ovs", VNIC: "vdpa",
				VLAN: 100, Device: at(t, "0000:3b:00.2")}}}
}

// TestDevicesWithoutNames makes guests whose ports have devices without a name on the host: they are refused with what
// to do.
func TestDevicesWithoutNames(t *testing.T) {
	g := namedGuest(t)
	for n, says := range []string{"bind the VF", "vhost_vdpa"} {
		host := named(t)
		delete(host.Names, g.Interfaces[n].Device)
		_, err := Make(host, id, g, Files{})
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	g.Devices = nil
	if _, err := Make(named(t), id, g, Files{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a port with a device that the guest does not have: %v", err)
	}
}

// TestDeviceIn finds the device of each port in what libvirt returns, and nothing for another port.
func TestDeviceIn(t *testing.T) {
	g := namedGuest(t)
	g.Interfaces = append(g.Interfaces, hypervisor.Interface{Port: id, MAC: "fa:16:3e:00:00:03", VIF: "hw_veb",
		VNIC: "direct", Device: at(t, "0000:3b:00.3")}, hypervisor.Interface{Port: id, MAC: "fa:16:3e:00:00:04",
		VIF: "hostdev_physical", VNIC: "direct-physical", Device: at(t, "0000:3b:00.4")})
	g.Devices = append(g.Devices, hypervisor.Device{ID: at(t, "0000:3b:00.3")},
		hypervisor.Device{ID: at(t, "0000:3b:00.4")})
	d, err := Make(named(t), id, g, Files{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range g.Interfaces {
		attached, err := PortDevice(named(t), i, g.Devices)
		if err != nil {
			t.Fatal(err)
		}
		found, err := DeviceIn(d, i)
		if err != nil || found != attached {
			t.Errorf("port %s: %v, found\n%s\nattached\n%s", i.MAC, err, found, attached)
		}
		other := i
		other.MAC, other.Device = "fa:16:3e:00:00:09", at(t, "0000:3b:00.7")
		if found, err := DeviceIn(d, other); err != nil || found != "" {
			t.Errorf("another port: %s %v", found, err)
		}
	}
}

// TestPlaceOf finds where libvirt has put the interfaces of a guest: by the MAC address, and a whole device by its
// address on the host. A place that is not on a PCI bus is not known.
func TestPlaceOf(t *testing.T) {
	d, err := Decode(`<domain><devices><interface type='bridge'><mac address='fa:16:3e:00:00:01'/>
<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></interface>
<interface type='hostdev'><mac address='fa:16:3e:00:00:02'/><source>
<address type='pci' domain='0x0000' bus='0x3b' slot='0x00' function='0x2'/></source>
<address type='pci' domain='0x0000' bus='0x0a' slot='0x1f' function='0x7'/></interface>
<interface type='bridge'><mac address='fa:16:3e:00:00:03'/><address type='ccw' cssid='0xfe'/></interface>
<hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x3b' slot='0x00' function='0x4'/></source>
<address type='pci' domain='0x0000' bus='0x06' slot='0x00' function='0x0'/></hostdev></devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		i    hypervisor.Interface
		want string
	}{
		{hypervisor.Interface{MAC: "fa:16:3e:00:00:01"}, "0000:01:00.0"},
		{hypervisor.Interface{MAC: "fa:16:3e:00:00:02", Device: at(t, "0000:3b:00.2")}, "0000:0a:1f.7"},
		{hypervisor.Interface{MAC: "fa:16:3e:00:00:03"}, ""},
		{hypervisor.Interface{MAC: "fa:16:3e:00:00:04", Device: at(t, "0000:3b:00.4")}, "0000:06:00.0"},
		{hypervisor.Interface{MAC: "fa:16:3e:00:00:05", Device: at(t, "0000:3b:00.5")}, ""},
	} {
		if got := PlaceOf(d, c.i); got != c.want {
			t.Errorf("%+v is at %q, want %q", c.i, got, c.want)
		}
	}
}

// parsed encodes a domain and parses it. The result must be encoded as the same text.
func parsed(t *testing.T, d Domain) Domain {
	t.Helper()
	text, err := Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if again, err := Encode(got); err != nil || again != text {
		t.Fatalf("%v: intended\n%s\nparsed\n%s", err, text, again)
	}
	return got
}

// FuzzPorts puts any texts into ports with devices: the parsed XML must be the intended domain.
func FuzzPorts(f *testing.F) {
	f.Add("port", "fa:16:3e:00:00:01", "ens1f0v1", 100)
	f.Add("'/><interface/>", "\"/><mac address='x'", "</source>&lt;]]>", -1)
	f.Add("\x00", "\ufffe\r\n\t", "'\"", 4095)
	f.Fuzz(func(t *testing.T, port, mac, name string, vlan int) {
		g, host := namedGuest(t), named(t)
		for i := range g.Interfaces {
			one := &g.Interfaces[i]
			one.Port, one.MAC, one.VLAN, host.Names[one.Device] = port, mac, vlan, name
		}
		d, err := Make(host, id, g, Files{})
		if err != nil {
			if isXML(port) && isXML(mac) && isXML(name) && name != "" && port != "" {
				t.Fatal(err)
			}
			return
		}
		got := parsed(t, d)
		if port == "" {
			return // such a port is being changed, and has no interface
		}
		for n, kind := range []string{"direct", "vdpa"} {
			i := got.Devices.Interfaces[n]
			isDirect, isVDPA := i.Source.Direct != nil && i.Source.Direct.Dev == name,
				i.Source.VDPA != nil && i.Source.VDPA.Device == name
			if isDirect != (kind == "direct") || isVDPA != (kind == "vdpa") || i.MAC.Address != mac ||
				(i.VLan != nil) != (isDirect && vlan != 0) || i.VLan != nil && i.VLan.Tags[0].ID != uint(vlan) {
				t.Fatalf("interface %+v", i)
			}
		}
		if len(got.Devices.Hostdevs) != 0 || len(got.Devices.Interfaces) != 2 {
			t.Fatalf("devices %+v", got.Devices)
		}
	})
}

// TestGolden compares the XML of domains with golden files.
func TestGolden(t *testing.T) {
	for name, d := range cases(t) {
		text, err := Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name+".xml")
		if *update {
			if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != text+"\n" {
			t.Errorf("%s: %v, got\n%s", file, err, text)
		}
	}
}

// TestLibvirtAcceptsTheDomains defines each domain with libvirt, which validates it against its schema, and compares
// what libvirt has stored of the elements that the driver uses.
func TestLibvirtAcceptsTheDomains(t *testing.T) {
	c, err := rpc.Dial(t.Context(), libvirtd.Start(t).Socket, "qemu:///system", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, d := range cases(t) {
		if d.Type == "kvm" {
			continue // libvirt refuses it where KVM does not work
		}
		text, err := Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		defined, err := c.Define(t.Context(), text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		stored, err := c.XML(t.Context(), defined, rpc.Persistent)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(stored)
		if err != nil || !reflect.DeepEqual(got.Guest, d.Guest) ||
			len(got.Devices.Hostdevs) != len(d.Devices.Hostdevs) || !sameInterfaces(got, d) ||
			!reflect.DeepEqual(got.CPUTune, d.CPUTune) ||
			!reflect.DeepEqual(got.NUMATune, d.NUMATune) ||
			got.VCPU.Value != d.VCPU.Value || got.OS.Cmdline != d.OS.Cmdline {
			t.Errorf("%s: %v\ndefined\n%s\nstored\n%s", name, err, text, stored)
		}
		if err := c.Undefine(t.Context(), defined); err != nil {
			t.Fatal(err)
		}
	}
}

// sameInterfaces reports whether libvirt has stored the interfaces with what they are attached to.
func sameInterfaces(got, want Domain) bool {
	return slices.EqualFunc(got.Devices.Interfaces, want.Devices.Interfaces, func(a, b libvirtxml.DomainInterface) bool {
		return reflect.DeepEqual(a.MAC, b.MAC) && reflect.DeepEqual(a.VLan, b.VLan) && reflect.DeepEqual(a.Source, b.Source)
	})
}

// FuzzTexts puts any texts into a guest and its files: the parsed XML must be the intended domain.
func FuzzTexts(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("</metadata><devices>", "\"/><disk/>", "&lt;]]>")
	f.Add("\x00", "\ufffe\r\n\t", "'\"")
	f.Fuzz(func(t *testing.T, id, path, cmdline string) {
		d, err := Make(Host{Arch: "x86_64", Machine: "q35"}, id, hypervisor.Guest{ID: id, Server: path, Name: cmdline},
			Files{Disk: path, ConsoleLog: path, Kernel: path, Cmdline: cmdline})
		if err != nil {
			if isXML(id) && isXML(path) && isXML(cmdline) {
				t.Fatal(err)
			}
			return
		}
		got := parsed(t, d)
		if got.UUID != id || got.Name != "berth-"+id || got.OS.Kernel != path || got.OS.Cmdline != cmdline ||
			got.Guest.Server != path || got.Guest.Name != cmdline {
			t.Fatalf("intended %q, %q, %q; parsed %+v", id, path, cmdline, got)
		}
	})
}
