package reconcile

import (
	"cmp"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// A VF of a network is configured after the claim on it is durable and before its guest is built, and reset after the
// guest is destroyed and before the claim is freed. So whatever a crash ended, the next start finds the claim of each
// VF that may be configured.

// AssignedVFs returns the VFs of networks that existing guests have.
func (s *State) AssignedVFs() (out []vfconfig.Assigned) {
	for _, holder := range s.set.Holders() {
		g, exists := s.guests[string(holder)]
		if !exists || g.Departed {
			continue
		}
		for _, id := range vfsOf(s.set.Held(holder)) {
			out = append(out, vfconfig.Assigned{Device: id, Server: cmp.Or(g.Server, g.ID)})
		}
	}
	return out
}

// GuestEpoch counts builds, removals and migrations of guests; AssignedVFs may change with it.
func (s *State) GuestEpoch() int { return s.guestEpoch }

// vfsOf returns the VFs of networks among claims.
func vfsOf(claims []device.Claim) (out []device.ID) {
	for _, c := range claims {
		if c.Networked && c.Device.Type == pci.Virtual {
			out = append(out, c.ID())
		}
	}
	return out
}

// configureVFs returns the effect that configures the VFs of a guest that is started; nil if that is done, or there are
// none.
func (w *works) configureVFs(a *attempt, held []device.Claim) Effect {
	devices := vfsOf(held)
	if !w.config.ConfigureVFs || a.vfsReady || len(devices) == 0 || a.want.Power == host.Off {
		return nil
	}
	return ConfigureVFs{Work: a.want.ID, Server: cmp.Or(a.want.Server, a.want.ID), Devices: devices}
}

// vfsConfigured records the result of ConfigureVFs. While the network service does not answer, the guest waits. Any
// other fault is that of a build.
func (w *works) vfsConfigured(j *work, e ConfigureVFs, err error) error {
	switch {
	case err == nil:
		j.attempt.vfsReady = true
		w.log("VFs configured", "server", j.id, "devices", len(e.Devices))
		return nil
	case fault.Is(err, fault.Unavailable):
		return fault.Wrap("", "reconcile.ConfigureVFs", err)
	}
	return w.buildFailed(j, err)
}

// resetVFs returns the effect that resets the VFs of a guest that does not exist; nil if that is done, or there are
// none.
func (w *works) resetVFs(j *work, id string) Effect {
	devices := vfsOf(w.set.Held(resource.ConsumerID(id)))
	if !w.config.ConfigureVFs || j.attempt.vfsReset[id] || len(devices) == 0 {
		return nil
	}
	return ResetVFs{Work: j.id, ID: id, Devices: devices}
}
