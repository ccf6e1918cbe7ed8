package libvirt

import (
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
)

// TestNamesOfDevices reads the names of VFs from a /sys: of a network interface, of a character device for vdpa, and
// none of a VF without them.
func TestNamesOfDevices(t *testing.T) {
	const dir = "bus/pci/devices/0000:3b:00."
	sysfs := fstest.MapFS{dir + "1/net/ens1f0v1/address": {}, dir + "1/vdpa/not": {}, dir + "2/vdpa4/driver": {},
		dir + "2/vdpa4/vhost-vdpa-7/dev": {}, dir + "3/vdpa5/virtio1/driver": {}, dir + "4/vendor": {}}
	d := &Driver{o: Options{Sysfs: sysfs}}
	for function, want := range map[uint8][2]string{1: {"ens1f0v1", ""}, 2: {"", "/dev/vhost-vdpa-7"}, 3: {}, 4: {},
		5: {}} {
		g := hypervisortest.Guest("a", function)
		for n, kind := range []string{"macvtap", "vdpa"} {
			g.Interfaces = []hypervisor.Interface{{Port: "p", VNIC: kind, Device: g.Devices[0].ID}}
			host, err := d.withNames(domainxml.Host{}, g)
			if err != nil || host.Names[g.Devices[0].ID] != want[n] {
				t.Errorf("function %d, %s: %v %v, want %q", function, kind, host.Names, err, want[n])
			}
		}
	}
}
