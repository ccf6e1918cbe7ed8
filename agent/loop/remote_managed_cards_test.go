package loop

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/fault"
)

// Remote-managed cards are identified by their serial numbers and are only for ports.
func TestRemoteManaged(t *testing.T) {
	const remote = `{"address":"` + pf1 + `","product_id":"154c","remote_managed":true,"physical_network":null}`
	vf := strings.TrimSuffix(pf1, "0") + "1"
	scenario(t, "one VF has a serial number", func(t *testing.T, w *testHost) {
		w.sysfs.change(func(tree fstest.MapFS) {
			tree["bus/pci/devices/"+vf+"/vpd"] = &fstest.MapFile{Data: []byte("\x90\x07\x00SN\x04S123\x78")}
			tree["bus/pci/devices/"+pf1+"/net/ens1/address"] = &fstest.MapFile{Data: []byte("52:54:00:00:00:01\n")}
			tree["bus/pci/devices/"+pf1+"/virtfn7"] = &fstest.MapFile{Data: []byte("../" + vf), Mode: fs.ModeSymlink}
		})
		setRules(w, remote)
		a, stop := w.startReported()
		devices := a.Report().Devices
		if len(devices) != 1 || devices[0].Address != vf || !devices[0].RemoteManaged || !devices[0].ForPorts ||
			devices[0].Provider != "" || devices[0].CardSerial != "S123" || devices[0].PFMAC != "52:54:00:00:00:01" ||
			devices[0].VFNumber != 7 {
			t.Errorf("%+v", devices)
		}
		must(t, stop())
	})
	scenario(t, "no VF has a serial number", func(t *testing.T, w *testHost) {
		setRules(w, remote)
		a, stop := w.startReported()
		if devices := a.Report().Devices; len(devices) != 0 {
			t.Errorf("%+v", devices)
		}
		must(t, stop())
	})
	scenario(t, "the PF itself", func(t *testing.T, w *testHost) {
		setRules(w, `{"address":"`+pf1+`","remote_managed":true}`)
		contains(t, w.refusedStart(fault.Invalid), "the PF "+pf1+" itself", `product_id "154c"`)
	})
}
