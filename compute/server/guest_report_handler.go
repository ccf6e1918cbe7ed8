package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// putGuest is PUT /berth/v1/hosts/{host}/guests/{server}: the report of a guest. It may be received twice. A late
// report, or one from an agent that does not serve the host, gets 409 and changes nothing. The report is recorded
// even if the agent closes the connection before the response.
func (s *server) putGuest(c *call) error {
	var guest host.Guest
	if err := c.read(maxBody, &guest); err != nil {
		return err
	}
	event, err := ReadGuest(c.R.PathValue("host"), c.R.PathValue("server"), guest)
	if err != nil {
		return err
	}
	if _, err := readSender(host.Sender{Instance: guest.Instance, Start: guest.Start}); err != nil {
		return err
	}
	if guest.Number <= 0 {
		return fault.New(fault.Invalid, "number must be larger than in all earlier reports of this agent; it is %d",
			guest.Number)
	}
	report := lifecycle.Report{Host: c.R.PathValue("host"), Instance: guest.Instance, Number: guest.Number, Event: event}
	ctx, cancel := rest.Patient(c.R.Context())
	defer cancel()
	err = s.Conductor.Guest(ctx, c.R.PathValue("server"), guest.Start, report)
	if late, is := errors.AsType[*conductor.Late](err); is {
		c.W.Header().Set(host.Latest, strconv.FormatInt(late.Number, 10))
	}
	if err != nil {
		return err
	}
	return c.writeStatus(http.StatusNoContent)
}

// ReadGuest converts the report of a guest, known as id to the agent of the host, to the event of its server. It
// returns fault.Invalid for a value that is not valid.
func ReadGuest(name, id string, g host.Guest) (lifecycle.Event, error) {
	var devices []schedule.Picked
	for _, d := range g.Devices {
		if _, err := pci.ParseAddress(d.Address); err != nil {
			return nil, err
		}
		devices = append(devices, schedule.Picked{RequestID: d.RequestID, Address: d.Address,
			Provider: provider.ID(d.Provider)})
	}
	cells := host.ReadPlaced(g.Cells)
	switch g.Phase {
	case host.Claimed:
		return lifecycle.GuestClaimed{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build}, nil
	case host.Running:
		return lifecycle.GuestRunning{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build,
			Ports: g.Ports, Happened: g.Happened}, nil
	case host.Stopped:
		return lifecycle.GuestStopped{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build,
			Ports: g.Ports, ShutDown: g.ShutDown, Happened: g.Happened,
			Upload: (*lifecycle.DiskUpload)(g.Upload)}, nil
	case host.Refused:
		return lifecycle.GuestRefused{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build,
			Stopped: g.Power == host.Off, Message: g.Message, RetryIn: time.Duration(g.RetryIn) * time.Second}, nil
	case host.Departed:
		return lifecycle.GuestMigrated{Host: name, Consumer: id}, nil
	case host.Failed:
		return lifecycle.GuestFailed{Host: name, Consumer: id, Message: g.Message, Removed: g.Removed}, nil
	case host.Gone:
		return lifecycle.GuestGone{Host: name, Consumer: id, Removed: g.Removed}, nil
	}
	return nil, fault.New(fault.Invalid, "phase is %q; it must be one of %s, %s, %s, %s, %s, %s, %s", g.Phase,
		host.Claimed, host.Running, host.Stopped, host.Refused, host.Departed, host.Failed, host.Gone)
}
