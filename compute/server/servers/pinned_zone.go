package servers

import (
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// readPin reads pinned_availability_zone (2.104): the zone that the server must not leave; empty for null, which
// permits all. It returns nil if the key is not given.
func readPin(c *request.Call, o *edge.Object) *string {
	if !c.Has(compute.PinZone) || !o.Has("pinned_availability_zone") {
		return nil
	}
	zone := ""
	if edge.IsNull(o.Keys["pinned_availability_zone"]) {
		delete(o.Keys, "pinned_availability_zone")
		return &zone
	}
	if o.Text("pinned_availability_zone", &zone, 255) && zone == "" {
		o.Invalid("pinned_availability_zone", "it is empty; give the zone of the server or null")
	}
	return &zone
}

// checkPin returns fault.Conflict unless a server may be pinned to a zone: it is the one that it is in, and the server
// is not pinned to another one. An empty zone is always permitted.
func checkPin(now lifecycle.Server, zone string) error {
	switch {
	case zone == "" || zone == now.Zone:
	case now.Zone != "":
		return fault.New(fault.Conflict, "the server is pinned to the availability zone %s; set pinned_availability_zone "+
			"to null first", now.Zone)
	case zone != now.HostZone:
		return fault.New(fault.Conflict, "the server is in the availability zone %s and can be pinned to no other one; "+
			"it is %s", now.HostZone, edge.Clip(zone))
	}
	return nil
}
