package edge

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the Prometheus metrics of one server, in a registry of their own: requests, panics, the program and its
// process. A service adds its own to Registry. Labels have few values: routes are templates. It is safe for concurrent
// use.
type Metrics struct {
	Registry *prometheus.Registry
	prefix   string // of all names, such as berth_placement_

	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	bytes     *prometheus.CounterVec
	inFlight  prometheus.Gauge
	panics    prometheus.Counter
}

// NewMetrics returns metrics whose names begin with a prefix. All counters are at 0.
func NewMetrics(prefix string) *Metrics {
	m := &Metrics{prefix: prefix, Registry: prometheus.NewRegistry()}
	m.requests = m.Counters("requests_total", "Requests answered, by route, method and status.",
		"route", "method", "status")
	m.durations = m.Histograms("request_duration_seconds",
		"Time from the arrival of a request to the end of its answer, by route and method.", "route", "method")
	m.bytes = m.Counters("response_bytes_total", "Bytes of answer bodies, by route.", "route")
	m.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "requests_in_flight",
		Help: "Requests being answered now."})
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "panics_total",
		Help: "Requests that failed because of a defect in Berth and were answered with 500."})
	m.Registry.MustRegister(m.inFlight, m.panics, buildInfo(),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// DurationBuckets returns upper bounds of durations in seconds: from a read from memory to a slow database.
func DurationBuckets() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// Counters adds counters with labels.
func (m *Metrics) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.prefix + name, Help: help}, labels)
	m.Registry.MustRegister(c)
	return c
}

// Histograms adds histograms of durations with labels.
func (m *Metrics) Histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.prefix + name, Help: help,
		Buckets: DurationBuckets()}, labels)
	m.Registry.MustRegister(h)
	return h
}

// buildInfo returns a gauge that identifies the program: the version of the module, the revision it was built from, and
// the version of Go.
func buildInfo() prometheus.Collector {
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "berth_build_info", Help: "Version of the program; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}

// Handler returns a handler that exposes the metrics in Prometheus' text format, without authentication.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: false})
}

// Begin counts a request as in flight until End is called.
func (m *Metrics) Begin() { m.inFlight.Inc() }

// End ends what Begin began.
func (m *Metrics) End() { m.inFlight.Dec() }

// Panic counts a request whose handler panicked.
func (m *Metrics) Panic() { m.panics.Inc() }

// Request records an answered request. route is a template, empty for a path without a route; size is that of the body
// in bytes.
func (m *Metrics) Request(route, method string, status int, took time.Duration, size int64) {
	if route == "" {
		route = "none"
	}
	method = methodLabel(method)
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.durations.WithLabelValues(route, method).Observe(took.Seconds())
	m.bytes.WithLabelValues(route).Add(float64(size))
}

// methodLabel returns the method, or "other" for one that is not standard, to bound the number of series.
func methodLabel(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "other"
}
