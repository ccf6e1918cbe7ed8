package survey

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name   string
		rules  []string
		report bool
		want   []string // address: provider class, or why not; bridges and what no entry matches left out
		wrong  []string // a part of each
	}{
		{name: "reported, for ports, not reached", report: true,
			rules: []string{`{"product_id":"1515","traits":"fast"}`, `{"address":"0000:82:00.0","physical_network":"p"}`,
				`{"address":"0000:83:00.0","physical_network":null}`},
			want: []string{"0000:81:00.1: cmp1_0000:81:00.0 CUSTOM_PCI_8086_1515 [CUSTOM_FAST]",
				"0000:81:00.2: cmp1_0000:81:00.0 CUSTOM_PCI_8086_1515 [CUSTOM_FAST]",
				`0000:82:00.0: is for ports of physical_network "p"`, "0000:83:00.0: is for ports of tunnelled networks"}},
		{name: "remote_managed without a serial number", report: true,
			rules: []string{`{"address":"0000:81:00.2","remote_managed":true}`},
			want:  []string{"0000:81:00.2: is not offered: its entry of device_spec has remote_managed"}},
		{name: "not reported", rules: []string{`{"vendor_id":"10de"}`},
			want: []string{"0000:83:00.0: is offered, but", "10000:0a:00.0: is offered, but"}},
		{name: "all errors at once", report: true,
			rules: []string{`{"product_id":"1528"}`, `{"address":"0000:81:00.2"}`, `{"devname":"eth0"}`, `{"vendor_id":"10de"}`},
			want: []string{"0000:81:00.0: cannot be reported as device_spec at nova.conf:1",
				"0000:81:00.2: cannot be reported as device_spec at nova.conf:2",
				"0000:82:00.0: cmp1_0000:82:00.0 CUSTOM_PCI_8086_1528 []",
				"0000:83:00.0: cmp1_0000:83:00.0 CUSTOM_PCI_10DE_20B0 []",
				"10000:0a:00.0: cmp1_10000:0A:00.0 CUSTOM_PCI_10DE_20B0 []"},
			wrong: []string{`devname "eth0"`, "both offered"}},
		{name: "one_time_use without reporting", rules: []string{`{"address":"0000:83:00.0","one_time_use":true}`},
			want: []string{"0000:83:00.0: is offered, but"}, wrong: []string{"needs [pci] report_in_placement"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sampleFacts(t, c.rules...)
			f.Report = c.report
			list, wrong, _ := Verdicts(f)
			if len(list) != len(f.Devices) {
				t.Errorf("%d verdicts on %d devices", len(list), len(f.Devices))
			}
			var got []string
			for _, v := range list {
				if v.Reported != (v.Why == "") || v.Offered != (v.Entry != nil) {
					t.Errorf("%+v", v)
				}
				switch {
				case v.Reported:
					got = append(got, fmt.Sprintf("%s: %s %s %s", v.Device.Address, v.Offer.Name, v.Offer.ResourceClass,
						v.Offer.Traits))
				case !strings.Contains(v.Why, "no entry") && !v.Device.IsBridge():
					got = append(got, v.Device.Address.String()+": "+v.Why)
				}
			}
			same := func(got, want string) bool { return strings.HasPrefix(got, want) }
			if !slices.EqualFunc(got, c.want, same) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if !slices.EqualFunc(wrong, c.wrong, strings.Contains) {
				t.Errorf("wrong\n%s\nwant\n%s", strings.Join(wrong, "\n"), strings.Join(c.wrong, "\n"))
			}
			if _, _, err := Desired(f); (err != nil) != (len(wrong) > 0) {
				t.Errorf("the agent reports %v, the check %q", err, wrong)
			}
		})
	}
}
