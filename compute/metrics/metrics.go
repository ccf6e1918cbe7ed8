// Package metrics holds the Prometheus metrics of the compute service beside those of its requests: what it does with
// servers (metrics.go), and what the cloud has (state.go, collector.go).
//
// docs/monitoring/README.md lists every metric with its meaning, and a test compares the two. Labels have few values:
// classes are those of the hosts' devices, and at most MaxProjects projects have series of their own.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
)

const prefix = "berth_compute_"

// Set holds the metrics of one compute service. It is safe for concurrent use.
type Set struct {
	*edge.Metrics // of requests and of the process

	steps    *prometheus.HistogramVec
	searches *prometheus.CounterVec
	lost     prometheus.Counter
	built    *prometheus.HistogramVec
	ended    *prometheus.CounterVec

	mu       sync.Mutex
	building map[string]phase // servers that have not run yet, by id
}

// phase is the state of a server that is being built, and when it began.
type phase struct {
	state lifecycle.State
	since time.Time
}

// New returns a set with all counters at 0.
func New() *Set {
	s := &Set{Metrics: edge.NewMetrics(prefix), building: map[string]phase{}}
	s.steps = s.Histograms("step_duration_seconds",
		"Time of one attempt of a step of a server, by step and result: done or failed (it is tried again).",
		"step", "result")
	s.searches = s.Counters("searches_total", "Searches for a host, by result: found, or what refused most hosts.",
		"result")
	s.lost = prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "lost_claims_total",
		Help: "Claims refused by Placement because another consumer was faster; the next choice is claimed then."})
	buckets := []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	s.built = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "build_duration_seconds",
		Help: "Time that new servers were in a state on their way to ACTIVE, and in total.", Buckets: buckets},
		[]string{"phase"})
	s.ended = s.Counters("builds_total", "New servers whose build ended, by result: active, error or deleted.", "result")
	s.Registry.MustRegister(s.lost, s.built)
	for _, result := range []string{"active", "error", "deleted"} {
		s.ended.WithLabelValues(result) // so that the series exist before the first build
	}
	s.searches.WithLabelValues("found")
	return s
}

// Step records an attempt of a step: how long it took, and its event, or the error because of which it is tried again.
func (s *Set) Step(step lifecycle.Step, took time.Duration, event lifecycle.Event, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	s.steps.WithLabelValues(string(step), result).Observe(took.Seconds())
	switch e := event.(type) {
	case lifecycle.Chosen:
		s.searches.WithLabelValues("found").Inc()
	case lifecycle.NoValidHost:
		s.searches.WithLabelValues(cause(e)).Inc()
	case lifecycle.Refused:
		s.searches.WithLabelValues("request").Inc()
	case lifecycle.ClaimLost:
		s.lost.Inc()
	}
}

// cause returns what prevented a server from having a host: Placement, or the filter that refused most hosts.
func cause(e lifecycle.NoValidHost) string {
	if e.Candidates == 0 || len(e.FilterFailures) == 0 {
		return "Placement"
	}
	return string(e.FilterFailures[0].Filter)
}

// phaseOf returns the name of the phase of a state. The request to Placement is built together with the first search.
func phaseOf(state lifecycle.State) string {
	if state == lifecycle.Preparing {
		state = lifecycle.Scheduling
	}
	return string(state)
}

// Stored records a change of a server. A state that began before this process did is not measured.
func (s *Set) Stored(before, after lifecycle.Server, now time.Time) {
	if before.State == after.State || !before.Launched.IsZero() || before.State == lifecycle.Error {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	begun, known := s.building[after.ID]
	if before.State == lifecycle.Preparing {
		begun, known = phase{before.State, before.Created}, true
	}
	if known && begun.state == before.State {
		s.built.WithLabelValues(phaseOf(before.State)).Observe(now.Sub(begun.since).Seconds())
	}
	result := ""
	switch after.State {
	case lifecycle.Active:
		result = "active"
		s.built.WithLabelValues("total").Observe(now.Sub(after.Created).Seconds())
	case lifecycle.Error:
		result = "error"
	case lifecycle.Deleted:
		result = "deleted"
	default:
		s.building[after.ID] = phase{after.State, now}
		return
	}
	delete(s.building, after.ID)
	s.ended.WithLabelValues(result).Inc()
}
