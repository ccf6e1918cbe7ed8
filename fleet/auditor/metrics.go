package auditor

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/openberth/berth/fleet"
)

// metrics are the Prometheus metrics of an auditor. The only labels are rules and results.
type metrics struct {
	registry    *prometheus.Registry
	differences *prometheus.GaugeVec
	duration    prometheus.Gauge
	looks       *prometheus.CounterVec
}

// newMetrics returns metrics without differences: their series begin with the first complete audit.
func newMetrics(age, overdue func() time.Duration) *metrics {
	const prefix = "berth_audit_"
	m := &metrics{registry: prometheus.NewRegistry()}
	m.differences = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "differences",
		Help: "Differences of the last complete audit that two looks have shown, by rule."}, []string{"rule"})
	m.duration = prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "look_duration_seconds",
		Help: "Time that the last look of the last complete audit took."})
	m.looks = prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "looks_total",
		Help: "Looks, by result: complete, incomplete (not all services were read) or failed."}, []string{"result"})
	for _, result := range []string{"complete", "incomplete", "failed"} {
		m.looks.WithLabelValues(result) // so that the series exist before the first look
	}
	m.registry.MustRegister(m.differences, m.duration, m.looks,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + "overdue_seconds",
			Help: "Age from which on the last complete audit is too old: three audits with their looks."},
			func() float64 { return overdue().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + "age_seconds",
			Help: "Time since the last complete audit ended; without one, since the start."},
			func() float64 { return age().Seconds() }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// publish shows the result of a complete audit.
func (m *metrics) publish(found []fleet.Finding, took time.Duration) {
	n := map[fleet.Rule]int{}
	for _, f := range found {
		n[f.Rule]++
	}
	for _, rule := range fleet.Rules() {
		m.differences.WithLabelValues(string(rule)).Set(float64(n[rule]))
	}
	m.duration.Set(took.Seconds())
}

// handler exposes the metrics in Prometheus' text format.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}
