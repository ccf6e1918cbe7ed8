package domainxml

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
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
				{Port: "8b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:03", VIF: "hw_veb", VNIC: "direct",
					VLAN: 100, Device: at(t, "0000:3b:00.1")}}}, Files{}},
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
		if err != nil || !reflect.DeepEqual(got.Metadata, d.Metadata) ||
			len(got.Devices.HostDevs) != len(d.Devices.HostDevs) || !reflect.DeepEqual(got.CPUTune, d.CPUTune) ||
			!reflect.DeepEqual(got.NUMATune, d.NUMATune) ||
			got.VCPU.Count != d.VCPU.Count || got.OS.Cmdline != d.OS.Cmdline {
			t.Errorf("%s: %v\ndefined\n%s\nstored\n%s", name, err, text, stored)
		}
		if err := c.Undefine(t.Context(), defined); err != nil {
			t.Fatal(err)
		}
	}
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
		text, err := Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if again, err := Encode(got); err != nil || again != text || got.UUID != id || got.Name != "berth-"+id ||
			got.OS.Kernel != path || got.OS.Cmdline != cmdline || got.Metadata.Guest.Server != path ||
			got.Metadata.Guest.Name != cmdline {
			t.Fatalf("%v: intended\n%s\nparsed\n%s", err, text, again)
		}
	})
}
