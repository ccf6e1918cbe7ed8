package conductor

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
)

// No host has devices for ports of vnic type vdpa, so Placement does not have their class. A server and an attachment
// are refused with the reason and the options to set, not with the class alone.
func TestPortNeedsADeviceThatNoHostReports(t *testing.T) {
	class, _ := portrequest.Class("vdpa")
	text := "No such resource class " + string(class)
	c := newAttachCloud(t, func(call placementtest.Call) (before, after error) {
		if call.Op == "Candidates" {
			before = fault.New(fault.Invalid, "%s", text)
		}
		return before, nil
	})
	event, err := c.conductor.Scheduler.Choose(t.Context(), server("s"), scheduler.Ports{})
	none, is := event.(lifecycle.NoValidHost)
	c.network.ports[0].VNIC = "vdpa"
	refused, _ := c.perform().(lifecycle.PortNotAttached)
	_, headroom, headroomErr := c.conductor.Scheduler.Headroom(t.Context(), flavor.Flavor{VCPUs: 1}, nil)
	if err != nil || !is || headroomErr != nil {
		t.Fatalf("%+v %v %v", event, err, headroomErr)
	}
	for what, reason := range map[string]string{"server": none.Reason, "attachment": refused.Reason,
		"headroom": headroom} {
		for _, part := range []string{"ports of vnic type vdpa", "[pci] device_spec", "report_network_devices = true"} {
			if !strings.Contains(reason, part) {
				t.Errorf("%s: %q does not have %q", what, reason, part)
			}
		}
	}
}
