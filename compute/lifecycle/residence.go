package lifecycle

import (
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Residence is what one consumer has on one host.
type Residence struct {
	Consumer         string // consumer in Placement, and the guest's id in the assignments of the host
	PreviousConsumer string // earlier id of the guest, until the agent reports it by the new one
	Host             string
	Flavor           flavor.Flavor
	Ask              resource.Ask
	Requests         []pci.Request
	Choice           *schedule.Choice // what was claimed
	Devices          []schedule.Picked
	Topology         []numa.GuestCell
	Cells            []numa.Placed
	Reported         bool // the agent has reported the guest
	Gone             bool // nothing of the guest is left on the host
}
