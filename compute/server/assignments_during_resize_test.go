package server

import (
	"net/http"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/compute/schedule"
)

// TestAssignmentsDuringResize checks the assignments of both hosts during a resize: the migration's entry with the
// consumer that it replaces, powered off, and then the new entry.
func TestAssignmentsDuringResize(t *testing.T) {
	h := start(t)
	h.flavor("one", map[string]string{"pci_passthrough:alias": "gpu:1"})
	h.flavor("two", map[string]string{"pci_passthrough:alias": "gpu:2"})
	id := h.runningServer("s")
	if r := h.at("2.1", http.MethodPost, "/v2.1/servers/"+id+"/action",
		`{"resize": {"flavorRef": "two"}}`); r.status != 202 {
		t.Fatal(r.text)
	}
	s := h.prepare(id)
	m := s.Migration.ID
	if s.Requests[0].Count != 2 || s.Requests[0].ID == s.Move.From.Requests[0].ID || len(s.Requests[0].Providers) != 0 {
		t.Errorf("the requests of the new flavor: %+v", s.Requests)
	}
	line := func(name string) (out []host.Server) {
		a, err := h.store.Assignments(t.Context(), name)
		if err != nil || a.Cloud != h.store.Cloud() || a.Cloud == "" {
			t.Fatalf("%+v %v", a, err)
		}
		for _, e := range a.Entries {
			out = append(out, record.ToAssignment(e.Entry, e.Server))
		}
		return out
	}
	if l := line("host1"); len(l) != 1 || l[0].ID != id || l[0].PreviousID != "" {
		t.Errorf("before the migration has an allocation: %+v", l)
	}
	choice := s.Move.From.Choice
	destination := schedule.Choice{Host: "host2", Root: rootID, Allocation: choice.Allocation, Mappings: choice.Mappings}
	h.apply(id, lifecycle.Chosen{Choices: []schedule.Choice{destination}})
	h.apply(id, lifecycle.AllocationsMoved{})
	if l := line("host1"); len(l) != 1 || l[0].ID != m || l[0].PreviousID != id || l[0].Server != id || l[0].Power != "" ||
		l[0].Requests[0].Count != 1 {
		t.Errorf("while the allocation is transferred: %+v", l)
	}
	h.apply(id, lifecycle.GuestRunning{Host: "host1", Consumer: m})
	s, _ = h.store.Read(t.Context(), id)
	h.apply(id, lifecycle.Claimed{Try: s.Try})
	if l := line("host1"); len(l) != 1 || l[0].Power != host.Off || l[0].VCPUs != 2 {
		t.Errorf("while it stops: %+v", l)
	}
	if l := line("host2"); len(l) != 0 {
		t.Errorf("before it has stopped: %+v", l)
	}
	h.apply(id, lifecycle.GuestStopped{Host: "host1", Consumer: m})
	if l := line("host2"); len(l) != 1 || l[0].ID != id || l[0].Requests[0].Count != 2 {
		t.Errorf("on the destination: %+v", l)
	}
	h.apply(id, lifecycle.GuestRunning{Host: "host2"})
	if got := h.status(id); got != "VERIFY_RESIZE resized -" {
		t.Error(got)
	}
	r := h.at("2.59", http.MethodGet, "/v2.1/os-migrations", "")
	if r.dig("migrations/0/uuid") != m || r.dig("migrations/0/status") != "finished" ||
		r.dig("migrations/0/source_compute") != "host1" ||
		r.dig("migrations/0/dest_compute") != "host2" || r.dig("migrations/0/migration_type") != "resize" {
		t.Error(r.text)
	}
	if r := h.at("2.23", http.MethodGet, "/v2.1/servers/"+id+"/migrations", ""); r.text != `{"migrations":[]}` {
		t.Errorf("the list of live migrations has a resize: %s", r.text)
	}
	if r := h.at("2.1", http.MethodPost, "/v2.1/servers/"+id+"/action", `{"confirmResize": null}`); r.status != 204 {
		t.Error(r.text)
	}
	if got := h.status(id); got != "ACTIVE active -" {
		t.Error(got)
	}
	why, err := h.admin.Why(t.Context(), id)
	if err != nil || len(why.Leftovers) != 1 || why.Leftovers[0].Consumer != m || why.Leftovers[0].Host != "host1" {
		t.Errorf("%+v %v", why.Leftovers, err)
	}
}
