package server

import (
	"context"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/operations"
)

// watchState adds metrics of the ports and the agents.
func watchState(m *edge.Metrics, ops *operations.Service) {
	ports := m.Gauges("ports", "Ports, by VNIC type and binding: bound, unbound or binding_failed.",
		"vnic_type", "binding")
	agents := m.Gauges("agents", "Network agents, by type and state (up, down).", "type", "state")
	m.WatchState(func(ctx context.Context) (list []edge.Sample, err error) {
		counts, err := operations.Count(ctx, ops)
		for of, n := range counts.Ports {
			list = append(list, edge.Sample{Of: ports, Value: float64(n), Labels: []string{of.VNICType, of.Binding}})
		}
		for of, n := range counts.Agents {
			state := "up"
			if of.Silent {
				state = "down"
			}
			list = append(list, edge.Sample{Of: agents, Value: float64(n), Labels: []string{of.Type, state}})
		}
		return list, err
	}, ports, agents)
}
