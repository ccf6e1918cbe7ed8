package metrics

import (
	"context"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/condition"
)

// Watch makes the set show the state of the cloud that a source returns. Call it at most once.
func (s *Set) Watch(source Source) {
	hosts := s.Gauges("hosts", "Hosts, by state (up, down) and status (enabled, disabled).", "state", "status")
	conditions := s.Gauges("hosts_with_conditions",
		"Hosts whose agents report conditions, by the highest level of them.", "level")
	behind := s.Gauges("hosts_behind", "Hosts whose agents do not follow the assignments.")
	quiet := s.Gauges("agent_quiet_seconds",
		"Time since the last sign of life of the agent that has been silent for longest, of the hosts that are up.")
	servers := s.Gauges("servers", "Servers, by status.", "status")
	projects := s.Gauges("project_servers",
		"Servers of the 100 projects that have most; the others together have an empty project.", "project")
	devices := s.Gauges("devices", "Devices that hosts offer, by class and state.", "class", "state")
	backlog := s.Gauges("backlog", "Servers with a step that is due, is being performed or waits after a failure.")
	images := s.Gauges("image_cache_bytes",
		"What the copies of images take on a host, of the 100 hosts with most; the others together have an empty host.",
		"host")
	limits := s.Gauges("image_cache_limit_bytes", "What the copies of images may take on these hosts.", "host")
	over := s.Gauges("image_caches_over_limit", "Hosts whose copies of images take more than their limit.")
	s.WatchState(func(ctx context.Context) ([]edge.Sample, error) {
		state, err := source.Read(ctx)
		if err != nil {
			return nil, err
		}
		list := []edge.Sample{{Of: behind, Value: float64(state.Behind)}, {Of: quiet, Value: state.Quiet.Seconds()},
			{Of: backlog, Value: float64(state.Backlog)}, {Of: over, Value: float64(state.Images.Over)}}
		add := func(of *edge.Gauges, n int, labels ...string) {
			list = append(list, edge.Sample{Of: of, Value: float64(n), Labels: labels})
		}
		for of, n := range state.Hosts {
			add(hosts, n, of.State, of.Status)
		}
		for _, level := range condition.Levels {
			add(conditions, state.Conditions[level], string(level))
		}
		for status, n := range state.Statuses {
			add(servers, n, status)
		}
		for project, n := range state.Projects {
			add(projects, n, project)
		}
		for of, n := range state.Devices {
			add(devices, n, of.Class, of.State)
		}
		for host, bytes := range state.Images.Bytes {
			list = append(list, edge.Sample{Of: images, Value: bytes, Labels: []string{host}})
		}
		for host, bytes := range state.Images.Limits {
			list = append(list, edge.Sample{Of: limits, Value: bytes, Labels: []string{host}})
		}
		return list, nil
	}, hosts, conditions, behind, quiet, servers, projects, devices, backlog, images, limits, over)
}
