package scheduler

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// A drain migrates a server live exactly if the Compute API accepts that; otherwise the plan has the API's reason.
func TestDrainActionFollowsTheAPI(t *testing.T) {
	const port = "11111111-0000-4000-8000-000000000001"
	direct := pci.Request{ID: "R", Count: 1, Port: &pci.PortNeeds{ID: port}}
	gpu := pci.Request{ID: "A", Alias: "gpu", Count: 1}
	migratable := pci.Request{ID: "M", Alias: "m", Count: 1, Requirement: pci.Requirement{LiveMigratable: pci.Yes}}
	base := lifecycle.Server{ID: "s", State: lifecycle.Active, Host: "a"}
	for name, test := range map[string]struct {
		change func(*lifecycle.Server)
		want   lifecycle.Action
		why    string
	}{
		"no devices": {func(*lifecycle.Server) {}, lifecycle.Live, ""},
		"a device of a port": {func(s *lifecycle.Server) { s.Requests = []pci.Request{direct} }, lifecycle.Live,
			"without the devices of its ports " + port},
		"a live-migratable device": {func(s *lifecycle.Server) { s.Requests = []pci.Request{migratable} },
			lifecycle.Live, ""},
		"another device": {func(s *lifecycle.Server) { s.Requests = []pci.Request{direct, gpu} }, lifecycle.Migrate,
			"alias gpu are not explicitly requested as live-migratable"},
		"an I/O slot": {func(s *lifecycle.Server) { s.Devices = []schedule.Picked{{Address: "21010020"}} },
			lifecycle.Migrate, "physical I/O slots"},
		"stopped": {func(s *lifecycle.Server) { s.Actual, s.Requests = lifecycle.Off, []pci.Request{direct} },
			lifecycle.Migrate, "vm_state stopped"},
		"paused": {func(s *lifecycle.Server) { s.Actual = lifecycle.Paused }, "", "vm_state paused"},
		"a change of its ports": {func(s *lifecycle.Server) { s.PortChange = &lifecycle.PortChange{ID: "c"} }, "",
			"while its ports are being changed"},
	} {
		s := base
		test.change(&s)
		action, why := drainAction(s, "a")
		if action != test.want || !strings.Contains(why, test.why) || test.why == "" && why != "" {
			t.Errorf("%s: %q, %q", name, action, why)
		}
		accepted := s.Refuse(lifecycle.Live, false) == "" && WhyNotLive(s) == ""
		if accepted != (action == lifecycle.Live) {
			t.Errorf("%s: the API accepts a live migration: %t, planned %q", name, accepted, action)
		}
	}
}
