package guests

import (
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
)

// mustReportShutDown reports whether a guest that should run has shut down by itself, and compute does not have that.
// Compute then usually stops the server. If compute has the report that the guest does not run, it is started. A guest
// that should be paused or suspended and has ended, as when the host has restarted, is not started.
func (j *work) mustReportShutDown(g hypervisor.Guest) bool {
	a := j.attempt
	if holds(a.want.Power) {
		return !g.Departed && g.ID != "" && g.Stopped && !g.Suspended && g.Lost == "" && g.Build >= a.want.Build
	}
	return g.ShutDown && !g.Departed && a.want.Power != host.Off && !a.claimed && j.acked != host.Stopped
}

// shutDownError is returned after compute has the report that a guest has shut down by itself. Compute usually then
// assigns the guest as stopped. When it continues to assign it as running, the agent starts it.
type shutDownError struct{}

// Error returns a sentence.
func (shutDownError) Error() string {
	return "the guest has shut down by itself; it is started again if the server must still run"
}
