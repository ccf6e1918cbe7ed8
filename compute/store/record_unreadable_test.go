package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// TestUnreadableRecordIsRejectedAndKept checks that a record that this program cannot read completely is an error with
// its name and what to do, and that it is not overwritten.
func TestUnreadableRecordIsRejectedAndKept(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":8,"id":"s"}`:                   "has version 8, and this Berth reads versions 1 to 7; start the",
		`{"id":"s","version":8}`:                   "has version 8",
		`{"version":0,"id":"s"}`:                   "has version 0",
		`{"version":7,"id":"s"}{"version":7}`:      "text after its end",
		`{"version":"2","id":"s"}`:                 "restore a backup",
		`{"version":7,"id":"s","color":"red"}`:     `unknown field "color"; start the Berth that wrote it, or`,
		`{"version":7,"id":"s","devices":[{"x`:     "unexpected EOF",
		`{"version":7,"id":"s","state":"dancing"`:  "unexpected EOF",
		`{"version":7,"state":"dancing"}`:          "is not a known",
		`{"ID":"s","State":"dancing"}`:             "is not a known",
		`{"ID":"s","Name":["s"],"State":"active"}`: "cannot unmarshal array",
		`{}`:                           `it is the record of ""; restore a backup`,
		`{"version":7,"id":"another"}`: `it is the record of "another"`,
		`[]`:                           "cannot unmarshal array",
		``:                             "unexpected end of JSON",
	} {
		if server, err := decodeServer("s", []byte(text)); !isRejected(err, "server s", want) {
			t.Errorf("%s is read as %+v %v, want an error with %q", text, server, err, want)
		}
	}
	const newer, unknown = `{"version":8,"name":"cmp1"}`, `{"version":7,"name":"cmp1","color":"red"}`
	for _, text := range []string{newer, unknown} {
		s, db := openCaptured(t)
		ids := capturedRows(t, "captured-server-rows.jsonl")[:1]
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
