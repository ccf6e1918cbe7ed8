package server

import (
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
)

// TestZoneIsPinned tests which zones PUT may pin a server to, from 2.104 on.
func TestZoneIsPinned(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	if _, err := h.store.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s.Zone, s.HostZone = "z1", "z1"
		return s
	}); err != nil {
		t.Fatal(err)
	}
	pin := func(zone string) string { return `{"server": {"pinned_availability_zone": ` + zone + `}}` }
	path := "/servers/" + id
	h.exchanges("ann:p1", []exchange{
		{"2.103", "PUT", path, pin("null"), 400, "Additional properties"},
		{"2.104", "PUT", path, pin(`"z1"`), 200, `"pinned_availability_zone":"z1"`},
		{"2.104", "PUT", path, pin(`"z2"`), 409, "to null first"},
		{"2.104", "PUT", path, pin("null"), 200, `"pinned_availability_zone":null`},
		{"2.104", "PUT", path, pin(`"z2"`), 409, "is in the availability zone z1"},
		{"2.104", "PUT", path, pin(`""`), 400, "pinned_availability_zone"},
		{"2.104", "PUT", path, pin(`"z1"`), 200, `"pinned_availability_zone":"z1"`},
		{"2.96", "GET", path, "", 200, `"pinned_availability_zone":"z1"`},
	})
}
