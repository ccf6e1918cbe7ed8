package store

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// TestHostsOfVersion1AreReadAndUpgraded checks that the reports of a database of version 1 are read without a
// difference, and that the next report of a host is stored as version 2.
func TestHostsOfVersion1AreReadAndUpgraded(t *testing.T) {
	s, db := openCaptured(t)
	hosts, err := s.Hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&got, "%s seen=%d guests=%d nodes=%d dedicated=%v ratio=%v reporting=%t\n",
			h.Name, h.Seen.UnixMicro(), len(h.Present), len(h.Cells), h.Cells[1].Dedicated, h.Limits.CPU, h.InPlacement)
		for _, d := range h.Devices {
			if d.Holder != "" {
				fmt.Fprintf(&got, "  %s %s:%s %s %s %s node=%d spent=%t migratable=%s\n",
					d.Address, d.Vendor, d.Product, d.Type, d.State, d.Holder, d.NUMANode, d.Spent, d.LiveMigratable)
			}
		}
	}
	const want = `cmp1 seen=1795336243880108 guests=15 nodes=2 dedicated=[5 6 7] ratio=16 reporting=true
  0000:81:01.0 8086:1533 type-PCI allocated b1b02628-1267-8000-a444-32e3ad8e5542 node=1 spent=false migratable=
  0000:81:03.1 8086:1515 type-VF allocated 589a67a1-9956-8000-8703-f64a46c237f4 node=0 spent=false migratable=true
  0000:81:03.2 8086:1515 type-VF allocated 48f518ff-a563-8000-89d9-9d4c1122d347 node=0 spent=false migratable=true
  0000:81:03.3 8086:1515 type-VF allocated 0dfe75d6-e2c3-4594-a101-c99e9515c558 node=0 spent=false migratable=true
cmp2 seen=1795336243178473 guests=3 nodes=2 dedicated=[5 6 7] ratio=16 reporting=true
  0000:81:01.0 8086:1533 type-PCI allocated b0494bbb-b67a-8000-8e65-740ba5a39f01 node=1 spent=true migratable=
  0000:81:03.1 8086:1515 type-VF allocated c8979dae-286a-8000-b0c8-ed01370e5632 node=0 spent=false migratable=true
  0000:81:03.2 8086:1515 type-VF allocated 8b903fcd-240f-8000-9306-f5fbaba3c3b2 node=0 spent=false migratable=true
cmp3 seen=1795336242819987 guests=3 nodes=2 dedicated=[5 6 7] ratio=16 reporting=true
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	for _, h := range hosts {
		var known schedule.Host
		if err := s.PutReport(t.Context(), h, func(k schedule.Host) error { known = k; return nil }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(known, h) {
			t.Errorf("admit is called with\n%+v\nwant\n%+v", known, h)
		}
		const report = `SELECT report FROM compute_hosts WHERE name = ?`
		if text := storedRecord(t, db, report, h.Name); !strings.HasPrefix(text, string(currentPrefix)) {
			t.Errorf("the report is stored as %s", text)
		}
		if again, err := s.Host(t.Context(), h.Name); err != nil || !reflect.DeepEqual(again, h) {
			t.Errorf("after a report %s is\n%+v\nwant\n%+v (%v)", h.Name, again, h, err)
		}
	}
}
