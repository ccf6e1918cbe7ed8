package hosts

import (
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/resource"
)

// A device that Placement has allocated to a consumer that is not placed on the host is not shown as available. Of the
// devices of one provider, as many are marked as are allocated.
func TestDevicesOfForeignConsumers(t *testing.T) {
	since := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	vf := func(provider, state, holder string) host.Device {
		return host.Device{Provider: provider, ResourceClass: "CUSTOM_VF", State: state, Holder: holder}
	}
	devices := []host.Device{vf("pf1", "allocated", "web"), vf("pf1", "available", ""), vf("pf1", "available", ""),
		vf("pf2", "available", ""), {Provider: "pf1", ResourceClass: "CUSTOM_NIC", State: "available"}}
	markForeign(devices, []audit.Foreign{{Consumer: "orphan", Since: since,
		Holds: resource.Allocation{"pf1": {"CUSTOM_VF": 1}, "root": {"VCPU": 4}}}})
	for i, want := range []string{"web", "orphan", "", "", ""} {
		d := devices[i]
		if d.Holder != want || (d.State == "allocated") != (want != "") || d.UnknownSince.IsZero() != (want != "orphan") {
			t.Errorf("device %d: %s, held by %q since %s; want holder %q", i, d.State, d.Holder, d.UnknownSince, want)
		}
	}
}
