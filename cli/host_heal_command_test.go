package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// The rows show names; with long they begin with the consumer's id.
func TestHealRows(t *testing.T) {
	found := host.Allocations{
		Missing: []host.Missing{{Consumer: "c1", Name: "web", Lacks: map[string]map[string]int{"p1": {"VCPU": 1}}},
			{Consumer: "c2", Name: "db", Outcome: "written", Healed: true}},
		Foreign: []host.Foreign{{Consumer: "c3", Holds: map[string]map[string]int{"p2": {"VCPU": 2}}, Why: "unknown"},
			{Consumer: "c4", Why: "unknown", Kept: "it has a guest"}, {Consumer: "c5", Why: "it is web", Kept: "it is web"},
			{Consumer: "c6", Why: "unknown", Outcome: "removed", Removed: true},
			{Consumer: "c7", Why: "unknown", Outcome: "not removed: changed"}}}
	found.Missing = append(found.Missing, host.Missing{Consumer: "c8", Name: "old", Refused: "it is on b"})
	rows, left := healRows(found, names{"p1": "cmp1", "c3": "resize of old"}, false)
	var got []string
	for _, row := range rows {
		got = append(got, strings.Join(row, "|"))
	}
	want := []string{"web|lacks VCPU:1 of provider cmp1|would be written", "db|lacks |written",
		"old|lacks |would not be written: it is on b",
		"resize of old|has VCPU:2 of provider p2|nothing: unknown; --apply --remove c3 removes it",
		"c4|has |nothing: unknown; it cannot be removed: it has a guest", "c5|has |nothing: it is web", "c6|has |removed",
		"c7|has |not removed: changed"}
	if !slices.Equal(got, want) || left != 3 {
		t.Errorf("%d left: %q", left, got)
	}
	if rows, _ := healRows(found, nil, true); rows[0][0] != "c1" || rows[3][0] != "c3" {
		t.Errorf("%q", rows)
	}
}

// How a removal is undone is printed although something else could not be done.
func TestUndoOfPartOfHealing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/berth/v1/hosts/cmp1/allocations" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(host.Allocations{Host: "cmp1", Foreign: []host.Foreign{ // the client may be gone
			{Consumer: "c1", Outcome: "removed", Removed: true, Undo: "openstack write c1"},
			{Consumer: "c2", Outcome: "not removed: changed"}}})
	}))
	defer server.Close()
	var out bytes.Buffer
	g := &Globals{PlacementURL: server.URL, ComputeURL: server.URL, Token: "t",
		OutputFlags: OutputFlags{Output: "table"}, Stdout: &out, Stderr: &bytes.Buffer{}}
	err := (&HostHealCmd{Host: "cmp1", Apply: true, Remove: []string{"c1", "c2"}}).Run(g)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(out.String(), "undo: openstack write c1\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}
