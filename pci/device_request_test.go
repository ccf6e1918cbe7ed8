package pci

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestRequirementRows tests which devices meet a requirement, and addresses that are not valid (rows U1, U2, U3 and
// U6 of docs/behaviour/nova-pci.md 7.9).
func TestRequirementRows(t *testing.T) {
	d := Device{Vendor: "8086", Product: "15ab", Type: Virtual}
	for _, c := range []struct {
		row          string
		requirement  Requirement
		alternatives []Requirement
		fits         bool
	}{
		{"U1 equal", Requirement{Vendor: "8086", Product: "15ab"}, nil, true},
		{"U1 another case", Requirement{Vendor: "8086", Product: "15AB"}, nil, true},
		{"U2 the second of two", Requirement{Vendor: "8086", Product: "1111"},
			[]Requirement{{Vendor: "8086", Product: "15ab"}}, true},
		{"U3 none of two", Requirement{Vendor: "8086", Product: "1111"}, []Requirement{{Vendor: "8087", Product: "15ab"}},
			false},
		{"U3 another type", Requirement{Vendor: "8086", Product: "15ab", Type: Physical}, nil, false},
	} {
		t.Run(c.row, func(t *testing.T) {
			r := Request{Requirement: c.requirement, Alternatives: c.alternatives}
			if why := r.WhyNot(d, Unset); (why == "") != c.fits {
				t.Errorf("refused %q", why)
			}
		})
	}
	for _, text := range []string{"0000:04.12:6", "0000:h4.12:6"} {
		if a, err := ParseAddress(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("U6 %s: %v %v", text, a, err)
		}
	}
	vdpa := d
	vdpa.Type = VDPA
	if why := (Request{Requirement: Requirement{Vendor: "8086"}}).WhyNot(vdpa, Unset); !strings.Contains(why, "vdpa") {
		t.Errorf("an alias gets a vDPA device: %q", why)
	}
}

// TestLiveMigratable tests live_migratable of an alias with that of a device (docs/behaviour/nova-pci.md 6.7), and
// which requests are certainly migratable.
func TestLiveMigratable(t *testing.T) {
	vf := Device{Vendor: "8086", Product: "1515", Type: Virtual}
	for _, c := range []struct {
		row           string
		alias, device Flag
		fits          bool
	}{
		{"S8 alias yes, device yes", Yes, Yes, true},
		{"S9 alias yes, device no", Yes, No, false},
		{"S12 alias yes, device unset", Yes, Unset, false},
		{"S11 alias no, device yes", No, Yes, false},
		{"alias no, device no", No, No, true},
		{"S13 alias no, device unset", No, Unset, false},
		{"S14 alias unset, device yes", Unset, Yes, true},
		{"S15 alias unset, device no", Unset, No, true},
		{"S16 both unset", Unset, Unset, true},
	} {
		t.Run(c.row, func(t *testing.T) {
			r := Request{Requirement: Requirement{Vendor: "8086", LiveMigratable: c.alias}}
			if why := r.WhyNot(vf, c.device); (why == "") != c.fits {
				t.Errorf("refused %q", why)
			}
			if r.LiveMigratable() != (c.alias == Yes) {
				t.Errorf("LiveMigratable is %t", r.LiveMigratable())
			}
		})
	}
	// If one definition does not require it, the request is not certainly migratable (Z13).
	one := Request{Requirement: Requirement{Product: "1515", LiveMigratable: Yes},
		Alternatives: []Requirement{{Product: "1516"}}}
	if one.LiveMigratable() {
		t.Error("a request is live-migratable although one definition does not require it")
	}
	if one.WhyNot(Device{Product: "1516", Type: Virtual}, No) != "" ||
		one.WhyNot(Device{Product: "1515", Type: Virtual}, No) == "" {
		t.Error("the definitions are not compared separately")
	}
}
