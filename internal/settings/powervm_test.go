package settings

import (
	"slices"
	"testing"

	"github.com/openberth/berth/fault"
)

// The inventory file has the path of the specification, and the driver selects the source of slots.
func TestPowerVMDefaults_R4(t *testing.T) {
	s, _, err := readText(t, "[DEFAULT]\ncompute_driver = powervm.PowerVMDriver\n")
	if err != nil || !slices.Equal(s.PowerVM.Files, []string{"/etc/nova/inventory.yaml"}) ||
		s.HostSettings.Facts != IOSlots || s.PowerVM.PlainNames || s.PowerVM.ClassFromDevice || s.PowerVM.SlotsRequired {
		t.Errorf("%+v %v %v", s.PowerVM, s.HostSettings.Facts, err)
	}
	if s, _, err = readText(t, ""); err != nil || s.HostSettings.Facts != "sysfs" {
		t.Errorf("without the driver: %v %v", s.HostSettings.Facts, err)
	}
}

// A password is never sent to another machine without encryption.
func TestPowerVMPasswordNeedsEncryption(t *testing.T) {
	s, _, err := readText(t, "[powervm]\nurl = http://novalink1:12080\nusername = u\npassword = p\n")
	if err == nil {
		_, err = s.PowerVMClient(nil)
	}
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}
