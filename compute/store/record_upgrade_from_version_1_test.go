package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
)

// summary returns the most important fields of a server in one line.
func summary(s lifecycle.Server) string {
	state, _ := stages.text(stage(s.Stage()))
	out := fmt.Sprintf("%s: %s %s %s", s.Name, state, s.Status(), s.Shown().Host)
	for _, d := range s.Devices {
		out += " device " + d.Address
	}
	for _, c := range s.Cells {
		out += fmt.Sprintf(" node %d cpus %v emulator %v", c.Node, c.CPUs, c.Emulator)
	}
	if m := s.Move; m != nil {
		out += fmt.Sprintf("; %s %s to %q", m.Kind, m.From.Host, m.To)
		for _, flag := range []struct {
			is   bool
			name string
		}{{m.AllocationsMoved(), "moved"}, {m.StopSource, "stop"}, {m.SourceStopped, "stopped"},
			{m.RevertRequested, "back"}} {
			if flag.is {
				out += " " + flag.name
			}
		}
	}
	for _, l := range s.Leftovers {
		out += "; left on " + l.Host
	}
	if s.Migration != nil {
		out += "; " + s.Migration.Status
	}
	return out
}

// capturedSummaries are the servers of testdata/records-v1, as shown by the program that wrote them.
const capturedSummaries = `active: active ACTIVE cmp1 device 0000:81:03.1
assigned: spawning RESIZE cmp1; migration cmp1 to "cmp3" moved stop stopped; post-migrating
crossing: live_migrating MIGRATING cmp1; live-migration cmp1 to "cmp3" moved; migrating
deleted: deleted DELETED cmp1
error: error ERROR 
evacuated: active ACTIVE cmp1; left on cmp3; completed
handing: awaiting_source_ack RESIZE cmp3; resize cmp3 to "" moved; pre-migrating
leftover: active ACTIVE cmp1 device 0000:81:03.2; left on cmp3; confirmed
live-migrated: active ACTIVE cmp2 device 0000:81:03.1; completed
numa: active ACTIVE cmp1 device 0000:81:01.0 node 1 cpus map[0:5 1:6] emulator [7]
offloading: offloading ACTIVE cmp1
planning: planning RESIZE cmp1; resize cmp1 to ""; accepted
rebuilt: active ACTIVE cmp1
receiving: pre_live_migration MIGRATING cmp1; live-migration cmp1 to "cmp3" moved; migrating
releasing: deleting_allocation ACTIVE cmp1
resized: resized VERIFY_RESIZE cmp2 device 0000:81:01.0; resize cmp1 to "" moved stop stopped; finished
reverting: reverting REVERT_RESIZE cmp3; migration cmp1 to "cmp3" moved stop stopped back; reverting
scheduling: scheduling BUILD 
shelved: shelved SHELVED_OFFLOADED 
shelving: shelving ACTIVE cmp3; completed
stopped: active SHUTOFF cmp1
unassigning: deleting_guest ACTIVE cmp3; completed
undoing: releasing_destination REVERT_RESIZE cmp1; migration cmp1 to "" moved stop stopped back; reverting
`

// TestServersOfVersion1AreReadAndUpgraded checks that the servers of a database of version 1 are read without a
// difference, that their columns and residence rows are unchanged, and that the next change stores them as version 2.
func TestServersOfVersion1AreReadAndUpgraded(t *testing.T) {
	s, db := openCaptured(t)
	stays := map[string]residenceRow{}
	for _, row := range capturedRows(t, "captured-residence-rows.jsonl") {
		weighs, _ := row["weighs"].(json.Number).Int64()
		stays[row["consumer"].(string)] = residenceRow{row["host"].(string), int(weighs)}
	}
	var got strings.Builder
	for _, row := range capturedRows(t, "captured-server-rows.jsonl") {
		id := row["id"].(string)
		server, err := s.Read(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&got, summary(server))
		checkColumns(t, row, server)
		for consumer, stay := range residenceRows(server) {
			if stays[consumer] != stay {
				t.Errorf("%s: the residence of %s is %v, was %v", server.Name, consumer, stay, stays[consumer])
			}
			delete(stays, consumer)
		}
		const record = `SELECT record FROM compute_servers WHERE id = ?`
		if text := storedRecord(t, db, record, id); text != row["record"] {
			t.Errorf("%s was written without a change: %s", server.Name, text)
		}
		want, err := s.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
			s.Description = "changed"
			return s
		})
		if err != nil {
			t.Fatal(err)
		}
		if text := storedRecord(t, db, record, id); !strings.HasPrefix(text, string(currentPrefix)) {
			t.Errorf("%s is stored as %s after a change", server.Name, text)
		}
		again, err := s.Read(t.Context(), id)
		server.Description, server.Revision = "changed", server.Revision+1
		if err != nil || !reflect.DeepEqual(again, server) || !reflect.DeepEqual(again, want) {
			t.Errorf("after a change %s is\n%+v\nwant\n%+v (%v)", server.Name, again, server, err)
		}
	}
	if got.String() != capturedSummaries {
		t.Errorf("got\n%s\nwant\n%s", got.String(), capturedSummaries)
	}
	if len(stays) > 0 {
		t.Errorf("no server has the residences %v", stays)
	}
}

// checkColumns checks that the columns of a server are the same as in version 1.
func checkColumns(t *testing.T, row map[string]any, s lifecycle.Server) {
	t.Helper()
	row["state"] = upgradeState(row["state"].(string))
	added := []string{"launched", "vcpus", "memory_mb", "disk_gb", "busy"} // after version 1
	for i, value := range columns(s) {
		name := serverColumns[i]
		was, there := row[name]
		if there == slices.Contains(added, name) || there && fmt.Sprint(was) != fmt.Sprint(value) {
			t.Errorf("%s: the column %s is %v, was %v", s.Name, name, value, was)
		}
	}
}

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
