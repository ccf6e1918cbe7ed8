package domainxml

import (
	"strings"
	"testing"

	"github.com/beevik/etree"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// sourceXML is the definition of a running domain, with elements that the driver does not use.
const sourceXML = `<?xml version="1.0"?>
<domain type='qemu' id='7' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>berth-x</name>
  <title>a &lt;b&gt; &amp; "c"</title>
  <metadata>
    <other:note xmlns:other="https://example.org/">kept</other:note>
    <berth:guest xmlns:berth="https://github.com/openberth/berth/libvirt/1" id="m1" server="s1" name="web" migrates-to="b"/>
  </metadata>
  <cputune><vcpupin vcpu='0' cpuset='4'/></cputune>
  <os><type machine='pc-q35-7.2'>hvm</type><loader secure='yes' type='pflash'>/a/code</loader>
    <nvram template='/a/vars'>/a/nvram</nvram></os>
  <devices>
    <disk type='file' device='disk'>
      <source file='/a/disk' index='2'/>
      <backingStore type='file'><source file='/a/base'/></backingStore>
      <target dev='vda' bus='virtio'/>
      <address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/>
    </disk>
    <interface type='bridge'>
      <mac address='fa:16:3e:00:00:01'/><source bridge='br-a'/><target dev='tap1'/>
      <address type='pci' domain='0x0000' bus='0x03' slot='0x00' function='0x0'/>
    </interface>
    <hostdev mode='subsystem' type='pci'>
      <source><address domain='0x0000' bus='0x3b' slot='0x00' function='0x1'/></source>
      <address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/>
    </hostdev>
    <serial type='pty'><log file='/a/log' append='on'/><target type='isa-serial' port='0'/></serial>
    <console type='pty'><log file='/a/log' append='on'/></console>
  </devices>
  <qemu:commandline><qemu:arg value='-x'/></qemu:commandline>
</domain>`

// preparedXML is what the destination has defined.
const preparedXML = `<domain type='qemu'>
  <numatune><memory mode='strict' nodeset='1'/></numatune>
  <os><loader secure='yes' type='pflash'>/b/code</loader><nvram>/b/nvram</nvram></os>
  <devices>
    <disk type='file' device='disk'><source file='/b/disk'/><target dev='vda' bus='virtio'/></disk>
    <interface type='bridge'><mac address='fa:16:3e:00:00:01'/><source bridge='br-b'/>
      <virtualport type='openvswitch'/><target dev='tap2'/></interface>
    <serial type='pty'><log file='/b/log' append='on'/></serial>
  </devices>
</domain>`

var arrived = Guest{ID: "s1", Name: "a <b>"}

// The definition at the destination has the guest's hardware as it is, and what belongs to the host as it was prepared.
func TestAtDestination(t *testing.T) {
	there := device.PCI(pci.Address{Bus: 0x5e, Slot: 2, Func: 3})
	devices := map[device.ID]device.ID{device.PCI(pci.Address{Bus: 0x3b, Func: 1}): there}
	text, err := AtDestination(sourceXML, preparedXML, arrived, devices)
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{`a &lt;b&gt; &amp; "c"`, "kept", `<qemu:arg value="-x">`,
		`xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"`, `bus="0x02"`, `bus="0x03"`, `bus="0x04"`} {
		if !strings.Contains(text, kept) {
			t.Errorf("no %s", kept)
		}
	}
	for _, gone := range []string{"/a/", "br-a", "tap1", "0x3b", "vcpupin", "migrates-to", "m1", "backingStore"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s remains", gone)
		}
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	guest := got.Guest
	if f := FirmwareOf(got); f != (Firmware{Loader: "/b/code", NVRAM: "/b/nvram", Secure: true}) {
		t.Errorf("firmware %+v", f)
	}
	if guest.ID != "s1" || guest.Name != "a <b>" || got.NUMATune == nil || got.NUMATune.Memory.Nodeset != "1" {
		t.Errorf("metadata %+v, nodes %+v", guest, got.NUMATune)
	}
	d := got.Devices
	at, err := parse(hostAddress(d.Hostdevs[0]))
	if got.Disk() != "/b/disk" || d.Serials[0].Log.File != "/b/log" || d.Consoles[0].Log.File != "/b/log" ||
		d.Interfaces[0].Source.Bridge.Bridge != "br-b" || d.Interfaces[0].VirtualPort == nil ||
		d.Interfaces[0].Target.Dev != "tap2" ||
		err != nil || device.PCI(at) != there {
		t.Errorf("devices %+v", d)
	}
	again, err := parseTree(text)
	if err != nil || written(t, again) != text {
		t.Errorf("parsed and written again: %v", err)
	}
}

// A definition is refused if the destination lacks a part of it, or if it cannot be read.
func TestAtDestinationRefuses(t *testing.T) {
	devices := map[device.ID]device.ID{device.PCI(pci.Address{Bus: 0x3b, Func: 1}): device.PCI(pci.Address{Bus: 1})}
	for _, c := range []struct {
		here, there string
		devices     map[device.ID]device.ID
		says        string
	}{
		{sourceXML, strings.Replace(preparedXML, "'vda'", "'vdb'", 1), devices, "the disk vda"},
		{sourceXML, strings.Replace(preparedXML, "00:01", "00:02", 1), devices, "the interface fa:16:3e:00:00:01"},
		{sourceXML, strings.Replace(preparedXML, "/b/log", "", 1), devices, "the log"},
		{sourceXML, preparedXML, nil, "0000:3b:00.1"},
		{sourceXML, strings.Replace(preparedXML, " secure='yes'", "", 1), devices, "secure boot is \"yes\" here and \"no\""},
		{sourceXML, strings.Replace(preparedXML, "<nvram>/b/nvram</nvram>", "", 1), devices, "the same firmware"},
		{"<domain><devices>", preparedXML, devices, "not complete"},
		{"<domain></other>", preparedXML, devices, "not complete"},
		{sourceXML, "", devices, "not complete"},
	} {
		if _, err := AtDestination(c.here, c.there, arrived, c.devices); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %s", err, c.says)
		}
	}
	bad := Guest{ID: "s1", Name: "\x00"}
	if _, err := AtDestination(sourceXML, preparedXML, bad, devices); !fault.Is(err, fault.Invalid) {
		t.Errorf("a name that XML does not allow: %v", err)
	}
}

// FuzzTree checks that a document that is read and written is the same when it is read again.
func FuzzTree(f *testing.F) {
	f.Add(sourceXML)
	f.Add(preparedXML)
	f.Add("<a b='&#10;&lt;'>\r\n]]&gt;<!-- c --></a>")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := parseTree(text)
		if err != nil {
			return
		}
		once := written(t, first)
		second, err := parseTree(once)
		if err != nil || written(t, second) != once {
			t.Errorf("%q is %q, and %v when it is read again", text, once, err)
		}
	})
}

func written(t *testing.T, d *etree.Document) string {
	t.Helper()
	text, err := d.WriteToString()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestReferences checks that characters that a parser of XML changes are written as references.
func TestReferences(t *testing.T) {
	const text = `<a b="&#xA;&#x9;&#xD;&quot;&lt;&amp;">&#xD;&lt;&amp;</a>`
	if d, err := parseTree(text); err != nil || written(t, d) != text {
		t.Errorf("%v %s", err, written(t, d))
	}
}

// TestGuestIn reads the guest of a domain, and none of a domain of another program that cannot be decoded.
func TestGuestIn(t *testing.T) {
	if g, err := GuestIn(sourceXML); g.ID != "m1" || g.Server != "s1" || err != nil {
		t.Errorf("%+v %v", g, err)
	}
	const other = `<domain><vcpu>many</vcpu><devices><interface/></devices></domain>`
	if _, err := Decode(other); err == nil {
		t.Error("decoded")
	}
	if g, err := GuestIn(other); g.ID != "" || err != nil {
		t.Errorf("%+v %v", g, err)
	}
}
