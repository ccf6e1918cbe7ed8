package survey

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestDesiredRefuses tests that a configuration which cannot be reported is rejected with the addresses and rules.
func TestDesiredRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		rules []string
		parts []string
	}{
		// A PF and its VFs cannot both be reported.
		"PF and VFs by one rule": {[]string{`{"address":"0000:81:00.0"}`},
			[]string{"PF 0000:81:00.0", "VFs 0000:81:00.1, 0000:81:00.2", "nova.conf:1", "product_id"}},
		"PF and one VF": {[]string{`{"product_id":"1528"}`, `{"address":"0000:81:00.2"}`},
			[]string{"PF 0000:81:00.0", "nova.conf:1", "VFs 0000:81:00.2", "nova.conf:2"}},
		"a PF and VFs of networks": {[]string{`{"product_id":"1528"}`, `{"product_id":"1515","physical_network":"p"}`},
			[]string{"PF 0000:81:00.0", `"physical_network": "p"`}},
		// The VFs of a PF have one class.
		"classes": {[]string{`{"address":"0000:81:00.1","resource_class":"vf1"}`,
			`{"address":"0000:81:00.2","resource_class":"vf2"}`},
			[]string{"0000:81:00.2", "nova.conf:2", "CUSTOM_VF2", "0000:81:00.1", "nova.conf:1", "CUSTOM_VF1", "one class"}},
		// The VFs of a PF have the same traits.
		"traits": {[]string{`{"address":"0000:81:00.1","traits":"foo"}`, `{"product_id":"1515","traits":"bar"}`},
			[]string{"0000:81:00.1", "[CUSTOM_FOO]", "0000:81:00.2", "[CUSTOM_BAR]", "same traits"}},
		"live_migratable": {[]string{`{"address":"0000:81:00.1","live_migratable":true}`, `{"product_id":"1515"}`},
			[]string{"HW_PCI_LIVE_MIGRATABLE", "[]"}},
		// devname cannot be used with report_in_placement.
		"devname": {[]string{`{"vendor_id":"10de"}`, `{"devname":"nowhere"}`},
			[]string{`devname "nowhere"`, "nova.conf:2", "address"}},
		"one_time_use": {[]string{`{"product_id":"1515","one_time_use":true}`},
			[]string{"0000:81:00.1", "nova.conf:1", "one_time_use"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := sampleFacts(t, c.rules...)
			tree, _, err := Desired(f)
			if !fault.Is(err, fault.Invalid) || len(tree.Providers) > 0 {
				t.Fatalf("accepted: %v %v", tree, err)
			}
			for _, part := range c.parts {
				if !strings.Contains(fault.TextOf(err), part) {
					t.Errorf("%q does not contain %q", fault.TextOf(err), part)
				}
			}
		})
	}
}

// As in Nova, the new tags take effect only with report_in_placement, and the old tracker supports a PF beside its
// VFs: without reporting, devices that could not be reported are offered as before.
func TestNoRefusalWithoutReporting(t *testing.T) {
	for _, rules := range [][]string{
		{`{"product_id":"1528"}`, `{"product_id":"1515"}`},
		{`{"address":"0000:81:00.1","resource_class":"vf1","traits":"a"}`,
			`{"address":"0000:81:00.2","resource_class":"vf2","traits":"b"}`},
		{`{"devname":"ens1"}`},
	} {
		f := sampleFacts(t, rules...)
		if _, _, err := Desired(f); err == nil {
			t.Errorf("%s is reported", rules)
		}
		f.Report = false
		tree, notes, err := Desired(f)
		if offers := Offers(f); err != nil || len(tree.Providers) != 1 || len(notes) > 0 || len(offers) < 2 ||
			offers[0].Provider != "" {
			t.Errorf("%s: %v %v, %d providers, %v", rules, err, notes, len(tree.Providers), offers)
		}
	}
}
