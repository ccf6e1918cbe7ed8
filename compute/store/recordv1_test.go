package store

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// capturedRows reads the rows of a table that a Berth with records of version 1 has written; see
// testdata/records-v1/README.md.
func capturedRows(t testing.TB, file string) (rows []map[string]any) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "records-v1", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		decoder := json.NewDecoder(strings.NewReader(lines.Text()))
		decoder.UseNumber()
		row := map[string]any{}
		if err := decoder.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil || len(rows) == 0 {
		t.Fatalf("%s has %d rows: %v", file, len(rows), err)
	}
	return rows
}

// openFile opens a store on a new SQLite file.
func openFile(t *testing.T) (*Store, *sqldb.DB) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "compute.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

// openCaptured opens a store on a database with the captured rows.
func openCaptured(t *testing.T) (*Store, *sqldb.DB) {
	t.Helper()
	s, db := openFile(t)
	for file, table := range map[string]string{
		"servers.jsonl": "compute_servers", "hosts.jsonl": "compute_hosts", "stays.jsonl": "compute_stays",
	} {
		for _, row := range capturedRows(t, file) {
			var names, marks []string
			var values []any
			for name, value := range row {
				if n, is := value.(json.Number); is {
					value = n.String()
				}
				names, marks, values = append(names, name), append(marks, "?"), append(values, value)
			}
			execute(t, db, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)",
				table, strings.Join(names, ", "), strings.Join(marks, ", ")), values...)
		}
	}
	return s, db
}

func execute(t *testing.T, db *sqldb.DB, statement string, values ...any) {
	t.Helper()
	err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), statement, values...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// storedRecord reads the record of one row.
func storedRecord(t *testing.T, db *sqldb.DB, query string, values ...any) (record string) {
	t.Helper()
	err := db.Read(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), query, values...).Scan(&record)
	})
	if err != nil {
		t.Fatal(err)
	}
	return record
}

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
	for _, row := range capturedRows(t, "stays.jsonl") {
		weighs, _ := row["weighs"].(json.Number).Int64()
		stays[row["consumer"].(string)] = residenceRow{row["host"].(string), int(weighs)}
	}
	var got strings.Builder
	for _, row := range capturedRows(t, "servers.jsonl") {
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
	names := []string{"name", "project", "user_id", "flavor", "state", "status", "due", "host", "placed", "devices",
		"created", "updated", "ended", "revision", "record"}
	row["state"] = upgradeState(row["state"].(string))
	for i, value := range columns(s, []byte(row["record"].(string))) {
		if was := row[names[i]]; fmt.Sprint(was) != fmt.Sprint(value) {
			t.Errorf("%s: the column %s is %v, was %v", s.Name, names[i], value, was)
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

// TestUnreadableRecordIsRejectedAndKept checks that a record that this program cannot read completely is an error with
// its name and what to do, and that it is not overwritten.
func TestUnreadableRecordIsRejectedAndKept(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":4,"id":"s"}`:                   "has version 4, and this Berth reads versions 1 to 3; start the",
		`{"id":"s","version":4}`:                   "has version 4",
		`{"version":0,"id":"s"}`:                   "has version 0",
		`{"version":3,"id":"s"}{"version":3}`:      "text after its end",
		`{"version":"2","id":"s"}`:                 "restore a backup",
		`{"version":3,"id":"s","color":"red"}`:     `unknown field "color"; start the Berth that wrote it, or`,
		`{"version":3,"id":"s","devices":[{"x`:     "unexpected EOF",
		`{"version":3,"id":"s","state":"dancing"`:  "unexpected EOF",
		`{"version":3,"state":"dancing"}`:          "is not a known",
		`{"ID":"s","State":"dancing"}`:             "is not a known",
		`{"ID":"s","Name":["s"],"State":"active"}`: "cannot unmarshal array",
		`{}`:                           `it is the record of ""; restore a backup`,
		`{"version":3,"id":"another"}`: `it is the record of "another"`,
		`[]`:                           "cannot unmarshal array",
		``:                             "unexpected end of JSON",
	} {
		if server, err := decodeServer("s", []byte(text)); !isRejected(err, "server s", want) {
			t.Errorf("%s is read as %+v %v, want an error with %q", text, server, err, want)
		}
	}
	const newer, unknown = `{"version":4,"name":"cmp1"}`, `{"version":3,"name":"cmp1","color":"red"}`
	for _, text := range []string{newer, unknown} {
		s, db := openCaptured(t)
		ids := capturedRows(t, "servers.jsonl")[:1]
		id := ids[0]["id"].(string)
		execute(t, db, `UPDATE compute_servers SET record = ? WHERE id = ?`, text, id)
		execute(t, db, `UPDATE compute_hosts SET report = ? WHERE name = 'cmp1'`, text)
		_, err := s.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
			s.Name = "changed"
			return s
		})
		if !isRejected(err, "server "+id, "start the Berth that wrote it") {
			t.Errorf("changing a server: %v", err)
		}
		_, err = s.Servers(t.Context(), ServerFilter{})
		if !isRejected(err, "server "+id, "start the Berth that wrote it") {
			t.Errorf("listing servers: %v", err)
		}
		err = s.PutReport(t.Context(), schedule.Host{Name: "cmp1"}, func(schedule.Host) error { return nil })
		if !isRejected(err, "host cmp1", "start the Berth that wrote it") {
			t.Errorf("storing a report: %v", err)
		}
		if _, err := s.Host(t.Context(), "cmp1"); !isRejected(err, "host cmp1", "start the Berth that wrote it") {
			t.Errorf("reading a report: %v", err)
		}
		kept := []string{
			storedRecord(t, db, `SELECT record FROM compute_servers WHERE id = ?`, id),
			storedRecord(t, db, `SELECT report FROM compute_hosts WHERE name = 'cmp1'`),
		}
		if !slices.Equal(kept, []string{text, text}) {
			t.Errorf("%s was changed to %q", text, kept)
		}
	}
}

// isRejected reports whether err is an internal fault that contains all texts.
func isRejected(err error, texts ...string) bool {
	return fault.Is(err, fault.Internal) && !slices.ContainsFunc(texts, func(text string) bool {
		return !strings.Contains(err.Error(), text)
	})
}

// TestOlderBerthDoesNotStart checks that a Berth that reads only version 1 does not start, because it would read a
// record of version 2 as an empty server.
func TestOlderBerthDoesNotStart(t *testing.T) {
	_, db := openFile(t)
	before := schemaMigrations()
	before = before[:slices.IndexFunc(before, func(s sqldb.Migration) bool { return s.Name == "compute_records_2" })]
	err := sqldb.Migrate(t.Context(), db, versionTable, before)
	const why = "a newer Berth wrote this database; start that one"
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want %q", err, why)
	}
}

func BenchmarkServerRecord(b *testing.B) {
	row := capturedRows(b, "servers.jsonl")[9] // the server with NUMA cells and a device
	id, old := row["id"].(string), []byte(row["record"].(string))
	server, err := decodeServer(id, old)
	if err != nil {
		b.Fatal(err)
	}
	text, err := encodeServer(server)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encodeServer(server); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, text := range map[string][]byte{"decode": text, "decode version 1": old} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeServer(id, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
