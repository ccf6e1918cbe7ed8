package conductor

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/resource"
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
	reader := c.conductor.read()
	event, err := reader.onRequestRejected(text)
	none, is := event.(lifecycle.NoValidHost)
	c.network.ports[0].VNIC = "vdpa"
	refused, _ := c.perform().(lifecycle.PortNotAttached)
	got, candidatesErr := reader.allCandidates(t.Context(), resource.Ask{})
	if err != nil || !is || candidatesErr != nil {
		t.Fatalf("%+v %v %v", event, err, candidatesErr)
	}
	for what, reason := range map[string]string{"server": none.Reason, "attachment": refused.Reason,
		"headroom": got.Reason} {
		for _, part := range []string{"ports of vnic type vdpa", "[pci] device_spec", "report_network_devices = true"} {
			if !strings.Contains(reason, part) {
				t.Errorf("%s: %q does not have %q", what, reason, part)
			}
		}
	}
}
