package guests

import (
	"cmp"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// A VF of a network is configured after the claim on it is durable and before its guest is built, and reset after the
// guest is destroyed and before the claim is freed. So whatever a crash ended, the next start finds the claim of each
// VF that may be configured. It is also reset while the guest is stopped: the server may run elsewhere, and the NIC
// would deliver the frames for its MAC address to this VF.

// vfsOf returns the VFs of networks among claims.
func vfsOf(claims []device.Claim) (out []device.ID) {
	for _, c := range claims {
		if c.Networked && c.Device.Type == pci.Virtual {
			out = append(out, c.ID())
		}
	}
	return out
}

// AssignedVFs returns the VFs of networks that a guest has, with the ports that compute assigned to them. Compute
// assigns bound ports only, so their links are up; what else is to be configured the network service returns.
func AssignedVFs(g hypervisor.Guest, claims []device.Claim) (out []vfconfig.Assigned) {
	for _, id := range vfsOf(claims) {
		if !slices.ContainsFunc(g.Devices, func(d hypervisor.Device) bool { return d.ID == id }) {
			continue // it is claimed for a port that is not bound yet
		}
		a := vfconfig.Assigned{Device: id, Server: cmp.Or(g.Server, g.ID)}
		for _, i := range g.Interfaces {
			if i.Device == id && i.VIF == state.HardwareBridge {
				a.Port = vfconfig.Port{ID: i.Port, MAC: i.MAC, VLAN: i.VLAN, AdminUp: true, SpoofCheck: true}
			}
		}
		out = append(out, a)
	}
	return out
}

// configureVFs returns the effect that configures the VFs of a guest that is started; nil if that is done, or there are
// none.
func configureVFs(w *Works, a *attempt, g hypervisor.Guest, held []device.Claim) state.Effect {
	vfs := AssignedVFs(g, held)
	if !w.Config.ConfigureVFs || a.ready.vfs || len(vfs) == 0 || g.Stopped {
		return nil
	}
	return state.ConfigureVFs{Work: a.want.ID, VFs: vfs}
}

// asAssigned reports whether the guest of an assignment exists and is as the assignment requires.
func asAssigned(w *Works, want host.Server) bool {
	g, exists := w.Guests[want.ID]
	return exists && !g.Departed && matches(g, want)
}

// resetVFs returns the effect that resets the VFs of a guest that does not exist or is stopped; nil if that is done, or
// there are none.
func resetVFs(w *Works, j *work, id string) state.Effect {
	devices := vfsOf(w.Set.Held(resource.ConsumerID(id)))
	if !w.Config.ConfigureVFs || j.attempt.vfsReset[id] || len(devices) == 0 {
		return nil
	}
	return state.ResetVFs{Work: j.id, ID: id, Devices: devices}
}
