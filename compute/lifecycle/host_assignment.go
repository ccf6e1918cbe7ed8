package lifecycle

import (
	"slices"

	"github.com/openberth/berth/compute/schedule"
)

// Assignment returns the host whose assignments contain the server under its own id, or an empty string. A server that
// is being deleted still has an AllocatedHost but no assignment.
func (s Server) Assignment() string {
	switch s.presence() {
	case incoming, building, existing:
		return s.Host
	}
	if s.Move != nil && !s.Move.AllocationsMoved() && s.Requested.IsZero() {
		return s.Move.From.Host // the source is unchanged so far
	}
	return ""
}

// Entry is one entry in the assignments of a host.
type Entry struct {
	Residence
	Power     Power
	Incoming  bool              // the guest will arrive by live migration
	Rescue    string            // image that the guest boots instead of its disk; empty: none
	ClaimOnly bool              // the agent must pick the devices and build nothing: the ports are not bound yet
	Outgoing  string            // destination host of the live migration, or empty
	DeviceMap map[string]string // device address here → device address at the destination; set with Outgoing
	Live      LiveRequests      // set with Outgoing: what operators have requested of the migration
	DiskFrom  *DiskSource       // the guest whose disk the agent copies before it builds the guest; nil: none
	UploadTo  string            // image that gets the disk of the guest, which must be stopped unless CopyDisk; or empty
	CopyDisk  bool              // the image gets a copy of the disk, also of a running guest
	DiskImage string            // image whose data the disk of a guest that is built becomes; empty: that of the server
}

// DiskSource is the source of a move, which has the disk of the server until the move is confirmed.
type DiskSource struct{ Host, Guest string }

// ownPower returns the desired power state of the guest of the server's own consumer.
func (s Server) ownPower() Power {
	if s.Move != nil && s.Move.KeepStopped {
		return Off
	}
	return s.Power
}

// Entries lists the entries of the server in the assignments of hosts: at most two for one host.
func (s Server) Entries() []Entry {
	var list []Entry
	switch s.presence() {
	case incoming:
		list = append(list, Entry{Residence: s.ownResidence(), Incoming: true})
	case building, existing:
		e := Entry{Residence: s.ownResidence(), Power: s.ownPower(), Rescue: s.RescueImage,
			ClaimOnly: s.awaitsPorts() || s.lacksPortDevice()}
		if m := s.Move; m != nil && m.keepsDisk() {
			e.DiskFrom = &DiskSource{Host: m.From.Host, Guest: m.From.Consumer}
		}
		if s.Task == Rebooting || s.Task == RebootingHard {
			e.Power = Off // until the guest has stopped
		}
		if s.StartAwaitsPorts() {
			e.Power = Off
		}
		if s.uploadsDisk() {
			e.UploadTo, e.CopyDisk = s.ShelvedImage.ID, s.ShelvedImage.Copy != nil
		}
		if s.uploadsDisk() && !e.CopyDisk {
			e.Power = Off
		}
		if s.Shelved && s.ShelvedImage != nil {
			e.DiskImage = s.ShelvedImage.ID
		}
		list = append(list, e)
	}
	if m := s.Move; m != nil && !m.From.Gone && s.Requested.IsZero() {
		e := Entry{Residence: m.From, Power: s.Power}
		if m.StopSource {
			e.Power = Off
		}
		if m.Phase == LiveMigrating {
			e.Outgoing, e.DeviceMap, e.Live = s.Host, pairUp(m.From.Devices, s.Devices), m.LiveRequests
		}
		list = append(list, e)
	}
	return list
}

// Expects reports whether the assignments of a host contain a guest of this consumer.
func (s Server) Expects(consumer, host string) bool {
	return slices.ContainsFunc(s.Entries(), func(e Entry) bool { return e.Consumer == consumer && e.Host == host })
}

// pairUp maps the addresses of the devices here to those of the devices there: same request, in order.
func pairUp(here, there []schedule.Picked) map[string]string {
	next := map[string][]string{}
	for _, d := range there {
		next[d.RequestID] = append(next[d.RequestID], d.Address)
	}
	out := map[string]string{}
	for _, d := range here {
		if list := next[d.RequestID]; len(list) > 0 {
			out[d.Address], next[d.RequestID] = list[0], list[1:]
		}
	}
	return out
}
