package survey

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/pci"
)

// grouped returns the test host with VFIO, on which each device has an IOMMU group of its own, the driver of the host
// has the PF 81, and change changes the devices by address.
func grouped(t *testing.T, change func(d *pci.Device), rules ...string) Facts {
	t.Helper()
	f := sampleFacts(t, rules...)
	f.VFIO = true
	for i := range f.Devices {
		d := &f.Devices[i]
		d.IOMMUGroup = 10 + i
		if d.Address == pf81 || d.IsBridge() {
			d.Driver = "ixgbe"
		}
		if change != nil {
			change(d)
		}
	}
	return f
}

const vfRule, gpuRule = `{"product_id":"1515"}`, `{"vendor_id":"10de"}`

// Devices of IOMMU groups that the host uses, and devices without a group, are not offered where guests get devices by
// VFIO. The notes name the other members with their drivers, and what to do.
func TestObstacles(t *testing.T) {
	other := gpuOther()
	for name, c := range map[string]struct {
		change  func(d *pci.Device)
		rule    string
		offered int      // devices
		says    []string // none: no note
	}{
		"alone": {nil, vfRule, 2, nil},
		"with the PF": {func(d *pci.Device) {
			if d.Address == vf1 {
				d.IOMMUGroup = 11
			}
		}, vfRule, 1, []string{"IOMMU group 11: 0000:81:00.1 cannot be given", "0000:81:00.0 (driver ixgbe)",
			"driverctl set-override 0000:81:00.0 vfio-pci"}},
		"with a bridge": {func(d *pci.Device) {
			if d.Address == vf1 {
				d.IOMMUGroup = 10
			}
		}, vfRule, 2, nil},
		"with another offered device that the host uses": {func(d *pci.Device) {
			if d.Address == gpu || d.Address == other {
				d.IOMMUGroup, d.Driver = 30, "nouveau"
			}
		}, gpuRule, 0, []string{"IOMMU group 30: 0000:83:00.0, 10000:0a:00.0 cannot be given", "nouveau"}},
		"with another offered device that is free": {func(d *pci.Device) {
			if d.Address == gpu || d.Address == other {
				d.IOMMUGroup, d.Driver = 30, "vfio-pci"
			}
		}, gpuRule, 2, nil},
		"with a driver of a vendor for guests": {func(d *pci.Device) {
			if d.Address == gpu || d.Address == other {
				d.IOMMUGroup, d.Driver = 30, "nvgrace_gpu_vfio_pci"
			}
		}, gpuRule, 2, nil},
		"no IOMMU": {func(d *pci.Device) { d.IOMMUGroup = pci.NoGroup }, vfRule, 0,
			[]string{"IOMMU: 0000:81:00.1, 0000:81:00.2 cannot be given", "intel_iommu=on"}},
	} {
		f := grouped(t, c.change, c.rule)
		offers := Offers(f)
		_, notes, err := Desired(f)
		verdicts, wrong, same := Verdicts(f)
		if err != nil || len(wrong) > 0 || len(offers) != c.offered || !slices.Equal(notes, same) {
			t.Errorf("%s: %d offered, %v %v, notes %v and %v", name, len(offers), err, wrong, notes, same)
		}
		reported, refused := 0, 0
		for _, v := range verdicts {
			if v.Reported {
				reported++
			}
			if strings.Contains(v.Why, "IOMMU") {
				refused++
			}
		}
		if reported != c.offered || refused != 2-c.offered {
			t.Errorf("%s: %d verdicts are positive, %d refused", name, reported, refused)
		}
		var text string
		for _, n := range notes {
			text += n.String() + "\n"
		}
		if len(c.says) == 0 && text != "" {
			t.Errorf("%s: %s", name, text)
		}
		for _, says := range c.says {
			if !strings.Contains(text, says) {
				t.Errorf("%s: no %q in %q", name, says, text)
			}
		}
		f.VFIO = false // another hypervisor: offered, and a note only about a group that is shared
		_, notes, _ = Desired(f)
		if len(Offers(f)) != 2 || len(notes) > len(c.says) {
			t.Errorf("%s without VFIO: %d offered, %v", name, len(Offers(f)), notes)
		}
	}
}

// The members of a group that are not offered are named, if another one is. Bridges and what the host uses are not.
func TestSplitGroups(t *testing.T) {
	other := gpuOther()
	for name, c := range map[string]struct {
		change func(d *pci.Device)
		rule   string
		says   []string // none: no note
	}{
		"groups of one device": {nil, gpuRule, nil},
		"both offered": {func(d *pci.Device) {
			if d.Address == gpu || d.Address == other {
				d.IOMMUGroup = 30
			}
		}, gpuRule, nil},
		"one not offered": {func(d *pci.Device) {
			if d.Address == gpu || d.Address == other || d.IsBridge() {
				d.IOMMUGroup, d.Driver = 30, ""
			}
		}, `{"address":"0000:83:00.0"}`, []string{"IOMMU group 30: 0000:83:00.0 is offered without 10000:0a:00.0, and",
			"device_spec"}},
		"a member of the host": {func(d *pci.Device) {
			if d.Address == gpu || d.Address == other {
				d.IOMMUGroup = 30
			}
			if d.Address == other {
				d.Driver = "nouveau"
			}
		}, `{"address":"0000:83:00.0"}`, nil},
		"none offered": {func(d *pci.Device) {
			if d.Address == gpu || d.Address == other {
				d.IOMMUGroup = 30
			}
		}, vfRule, nil},
		"without groups": {func(d *pci.Device) { d.IOMMUGroup = pci.NoGroup }, vfRule, nil},
	} {
		f := grouped(t, c.change, c.rule)
		f.VFIO = false
		verdicts, _, _ := Verdicts(f)
		var text string
		for _, n := range SplitGroups(verdicts) {
			text += n.String() + "\n"
		}
		if (text == "") != (len(c.says) == 0) {
			t.Errorf("%s: %q", name, text)
		}
		for _, says := range c.says {
			if !strings.Contains(text, says) {
				t.Errorf("%s: no %q in %q", name, says, text)
			}
		}
	}
}

// A device that a guest has stays in the tree when the host begins to use another member of its group.
func TestObstacleOfHeldDevice(t *testing.T) {
	f := grouped(t, nil, vfRule)
	claim := f.claim(t, vf1)
	f = grouped(t, func(d *pci.Device) {
		if d.Address == vf1 {
			d.IOMMUGroup, d.Driver = 11, "vfio-pci"
		}
	}, vfRule)
	f.Held = append(f.Held, claim)
	if got := picture(f); !strings.Contains(got, "0/2") || !strings.Contains(got,
		"is held by server s1, though it is in IOMMU group 11 with 0000:81:00.0 (driver ixgbe)") {
		t.Error(got)
	}
}

// gpuOther returns the address of the second GPU.
func gpuOther() pci.Address { return pci.Address{Domain: 0x10000, Bus: 0x0a} }
