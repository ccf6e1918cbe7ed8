package loop

import (
	"context"
	"reflect"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
)

// The times of heartbeats. The network service shows an agent as not alive 75 seconds after the last one.
const (
	heartbeatInterval = 30 * time.Second // between two heartbeats without a change
	heartbeatRetry    = 5 * time.Second  // the default of Times.HeartbeatRetry
	heartbeatPoll     = time.Second      // the default of Times.HeartbeatPoll
	firstPoll         = time.Second / 20 // the first one is sent within this time
	firstPolls        = 600              // for this number of polls, the first sync may take as long
	heartbeatTimeout  = 10 * time.Second // of a request
	noHeartbeats      = time.Hour        // without heartbeats, after the service has no such request
)

// sendHeartbeats reports the network agents of the host at an interval and when one changes, until ctx ends. A service
// without this request, such as Neutron, is not called again for an hour. The first heartbeat is sent as soon as the
// agent has something to report: until then no port can be bound to a host that servers can be scheduled to.
func (a *Agent) sendHeartbeats(ctx context.Context) {
	poll := firstPoll
	start := a.o.NewID()
	var sent []bandwidth.Heartbeat
	var next time.Time
	failing := ""
	for polls := 1; backoff.Sleep(ctx, poll) == nil; polls++ {
		if sent != nil || polls > firstPolls {
			poll = a.o.HeartbeatPoll
		}
		now := a.Heartbeats()
		due := !a.o.Now().Before(next)
		if len(now) == 0 || !due && (sent == nil || reflect.DeepEqual(now, sent)) {
			continue
		}
		sent, next = now, a.o.Now().Add(heartbeatInterval)
		err := a.sendAll(ctx, start, now)
		switch {
		case fault.Is(err, fault.NotFound):
			sent, next = nil, a.o.Now().Add(noHeartbeats)
		case err == nil:
			failing = ""
		default:
			next = a.o.Now().Add(a.o.HeartbeatRetry)
			if ctx.Err() == nil && failing != err.Error() {
				failing = err.Error()
				a.log.Warn("heartbeat not sent to the network service, will retry", "error", err)
			}
		}
	}
}

// sendAll sends the heartbeats. It returns the first error.
func (a *Agent) sendAll(ctx context.Context, start string, all []bandwidth.Heartbeat) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	for _, h := range all {
		if err := a.o.Network.ReportAgent(ctx, h.Host, string(h.Agent), agentReport(h, start)); err != nil {
			return err
		}
	}
	return nil
}

// agentReport converts a heartbeat for the contract.
func agentReport(h bandwidth.Heartbeat, start string) network.AgentReport {
	r := network.AgentReport{Binary: "berth-agent", Start: start, Synced: h.Synced, Root: string(h.Root),
		Provider: string(h.Provider), VNICTypes: h.VNICTypes, Configurations: h.Configurations,
		Devices: []network.AgentDevice{}}
	for _, d := range h.Devices {
		r.Devices = append(r.Devices, network.AgentDevice{Name: d.Name, Provider: string(d.Provider),
			PhysicalNetworks: d.PhysicalNetworks, PCISlots: d.VFs})
	}
	return r
}
