package sysfs

import (
	"io/fs"
	"reflect"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/pci"
)

// nicHost returns a host with two PFs in a bond, a VF, and virtual interfaces.
func nicHost() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o444} }
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink} }
	dir := &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	m := fstest.MapFS{
		"class/net/bonding_masters":      file("bond0"),
		"class/net/ens1f0/speed":         file("25000"),
		"class/net/ens1f0/master":        link("../../../../virtual/net/bond0"),
		"class/net/ens1f1/speed":         file("-1"),
		"class/net/ens1f1/master":        link("../../../../virtual/net/bond0"),
		"class/net/ens1f0v0/speed":       file("25000"),
		"class/net/bond0/speed":          file("25000"),
		"class/net/bond0/bonding/slaves": file("ens1f0 ens1f1"),
		"class/net/br-ex":                dir,
		"class/net/tap0/speed":           file("10000"),
		"class/net/lo/address":           file("00:00:00:00:00:00"),
	}
	for address, name := range map[string]string{"0000:3b:00.0": "ens1f0", "0000:3b:00.1": "ens1f1",
		"0000:3b:02.0": "ens1f0v0"} {
		at := "bus/pci/devices/" + address + "/"
		m[at+"vendor"], m[at+"device"], m[at+"class"] = file("0x8086"), file("0x158b"), file("0x020000")
		m[at+"net/"+name+"/address"] = file("00:00:00:00:00:00")
	}
	m["bus/pci/devices/0000:3b:00.0/net/ens1f0/address"] = file("52:54:00:12:34:56")
	m["bus/pci/devices/0000:3b:02.0/net/ens1f0v0/address"] = file("52:54:00:12:34:57")
	m["bus/pci/devices/0000:3b:00.0/sriov_totalvfs"] = file("8")
	m["bus/pci/devices/0000:3b:00.1/sriov_totalvfs"] = file("8")
	m["bus/pci/devices/0000:3b:02.0/physfn"] = link("../0000:3b:00.0")
	return m
}

func TestReadNICs(t *testing.T) {
	at := func(slot, function uint8) *pci.Address { return &pci.Address{Bus: 0x3b, Slot: slot, Func: function} }
	want := []facts.NIC{
		{Name: "bond0", SpeedMbps: 25000, Bond: true},
		{Name: "br-ex"},
		{Name: "ens1f0", Address: at(0, 0), SpeedMbps: 25000, Master: "bond0"},
		{Name: "ens1f0v0", Address: at(2, 0)},
		{Name: "ens1f1", Address: at(0, 1), Master: "bond0"},
		{Name: "lo"},
		{Name: "tap0"},
	}
	host := nicHost()
	found := read(t, host)
	var macs []string
	for _, d := range found.Devices {
		macs = append(macs, d.PFMAC)
	}
	if want := []string{"52:54:00:12:34:56", "", ""}; !slices.Equal(macs, want) {
		t.Errorf("the MAC addresses of the PFs, and none of the VF: %q, want %q", macs, want)
	}
	if !found.NICsRead || !reflect.DeepEqual(found.NICs, want) {
		t.Errorf("\n got %+v\nwant %+v", found.NICs, want)
	}
	text, err := Capture(host)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again := read(t, loaded); !again.NICsRead || !reflect.DeepEqual(again.NICs, want) {
		t.Errorf("the captured machine has\n%+v\nof\n%s", again.NICs, text)
	}
}

// A capture of an earlier release has only the interfaces of PCI devices.
func TestReadNICsOfOldCapture(t *testing.T) {
	found := read(t, machine(t, "sample"))
	i := slices.IndexFunc(found.NICs, func(n facts.NIC) bool { return n.Name == "eth0" })
	if i < 0 || *found.NICs[i].Address != (pci.Address{Bus: 0x22}) || found.NICs[i].SpeedMbps != 0 || !found.NICsRead {
		t.Errorf("%+v", found.NICs)
	}
}

// listless is a host whose list of network interfaces cannot be read.
type listless struct{ fstest.MapFS }

func (l listless) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == netDir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrPermission}
	}
	return l.MapFS.ReadDir(name)
}

func TestUnreadableListOfNICsIsAProblem(t *testing.T) {
	found := read(t, listless{nicHost()})
	if found.NICsRead || len(found.NICs) != 3 || len(found.Problems) != 1 {
		t.Errorf("%v, problems %v", found.NICs, found.Problems)
	}
	text, err := Capture(listless{nicHost()})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(text)
	if err != nil {
		t.Fatal(err)
	}
	if again := read(t, loaded); again.NICsRead || !reflect.DeepEqual(again.Problems, found.Problems) {
		t.Errorf("the captured machine has problems %v, want %v", again.Problems, found.Problems)
	}
}
