package lifecycle

import (
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func fresh() Server { return Server{ID: "s", Name: "web"} }

// prepared is what the servers of these tests request.
var prepared = Prepared{Requests: []pci.Request{{ID: "R", Alias: "nic", Count: 1}}}

func choice(host string) schedule.Choice {
	return schedule.Choice{Host: host, Root: provider.ID("root-" + host),
		Mappings: map[string][]provider.ID{"R-0": {provider.ID("pf-" + host)}}}
}

// ran is a server whose guest runs on host a.
func ran(t *testing.T) Server {
	t.Helper()
	s := fresh()
	for _, e := range []Event{Created{}, prepared, Chosen{Choices: []schedule.Choice{choice("a")}, Candidates: 1},
		Claimed{Try: 1},
		GuestClaimed{Host: "a", Consumer: "s"}, GuestRunning{Host: "a", Consumer: "s"}} {
		s, _ = Next(s, e, noon)
	}
	if s.Status() != "ACTIVE" {
		t.Fatal(s.Status())
	}
	return s
}

// resizing is a server on host a that is being resized, after its migration has taken over what it holds.
func resizing(between ...Event) Server {
	s := Server{ID: "s", State: Active, Host: "a", Choices: []schedule.Choice{choice("a")}}
	s = applyAll(s, ActionRequested{ID: "m", Action: Resize}, prepared, Chosen{Choices: []schedule.Choice{choice("b")}})
	s = applyAll(s, between...)
	return applyAll(s, AllocationsMoved{})
}

// applyAll gives a server events one after the other.
func applyAll(s Server, events ...Event) Server {
	for _, e := range events {
		s, _ = Next(s, e, noon)
	}
	return s
}
