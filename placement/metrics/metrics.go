// Package metrics holds the Prometheus metrics of the Placement service.
//
// A Set holds the metrics of one server in its own registry; Handler exposes them. docs/placement-operations.md lists
// every metric with its meaning, and a test compares the two. Labels have few values: routes are templates, methods and
// codes are those of the API.
package metrics

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/openberth/berth/fault"
)

// Set holds the metrics of one server. It is safe for concurrent use.
type Set struct {
	registry *prometheus.Registry

	requests     *prometheus.CounterVec
	durations    *prometheus.HistogramVec
	bytes        *prometheus.CounterVec
	inFlight     prometheus.Gauge
	waiting      prometheus.Gauge
	panics       prometheus.Counter
	search       prometheus.Histogram
	found        prometheus.Histogram
	explain      prometheus.Histogram
	claims       *prometheus.CounterVec
	conflicts    *prometheus.CounterVec
	retries      *prometheus.CounterVec
	failures     *prometheus.CounterVec
	transactions *prometheus.HistogramVec
}

// durationBuckets returns the upper bounds of durations in seconds: from a read from memory to a slow database.
func durationBuckets() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

const prefix = "berth_placement_"

// New returns a set with all counters at 0.
func New() *Set {
	s := &Set{registry: prometheus.NewRegistry()}
	s.requests = s.counters("requests_total", "Requests answered, by route, method and status.",
		"route", "method", "status")
	s.durations = s.histograms("request_duration_seconds",
		"Time from the arrival of a request to the end of its answer, by route and method.", "route", "method")
	s.bytes = s.counters("response_bytes_total", "Bytes of answer bodies, by route.", "route")
	s.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "requests_in_flight",
		Help: "Requests being answered now."})
	s.waiting = prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "searches_waiting",
		Help: "Searches that wait for their turn on a core."})
	s.panics = prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "panics_total",
		Help: "Requests that failed because of a defect in Berth and were answered with 500."})
	s.search = s.histogram("candidates_duration_seconds",
		"Time to find and encode allocation candidates, without sending them.", durationBuckets())
	s.found = s.histogram("candidates_found", "Allocation candidates in an answer.",
		[]float64{0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000})
	s.explain = s.histogram("explain_duration_seconds", "Time to explain why there are no candidates.", durationBuckets())
	s.claims = s.counters("claims_total", "Consumers in requests to write allocations, by outcome: granted, "+
		"refused (error of the client), failed (error of the service) or abandoned (the client disconnected).", "outcome")
	s.conflicts = s.counters("conflicts_total", "Answers with status 409, by error code.", "code")
	s.retries = s.counters("transaction_retries_total",
		"Transactions repeated because of a conflict with another transaction, by operation.", "operation")
	s.failures = s.counters("database_errors_total",
		"Transactions that failed because of an error of the database, by operation.", "operation")
	s.transactions = s.histograms("transaction_duration_seconds",
		"Time of transactions with all their attempts, by operation.", "operation")
	s.registry.MustRegister(s.inFlight, s.waiting, s.panics, buildInfo(),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, outcome := range []string{granted, refused, failed, abandoned} {
		s.claims.WithLabelValues(outcome) // so that the series exist before the first claim
	}
	return s
}

func (s *Set) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	s.registry.MustRegister(c)
	return c
}

func (s *Set) histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: durationBuckets()}
	h := prometheus.NewHistogramVec(opts, labels)
	s.registry.MustRegister(h)
	return h
}

func (s *Set) histogram(name, help string, bounds []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: bounds})
	s.registry.MustRegister(h)
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
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: false})
}

// Begin counts a request as in flight until the returned function is called.
func (s *Set) Begin() (end func()) {
	s.inFlight.Inc()
	return s.inFlight.Dec
}

// Wait counts a search as waiting until the returned function is called.
func (s *Set) Wait() (end func()) {
	s.waiting.Inc()
	return s.waiting.Dec
}

// Panic counts a request whose handler panicked.
func (s *Set) Panic() { s.panics.Inc() }

// Request records an answered request. route is a template, empty for a path without a route; size is that of the body
// in bytes.
func (s *Set) Request(route, method string, status int, took time.Duration, size int64) {
	if route == "" {
		route = "none"
	}
	method = methodLabel(method)
	s.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	s.durations.WithLabelValues(route, method).Observe(took.Seconds())
	s.bytes.WithLabelValues(route).Add(float64(size))
}

// methodLabel returns the method, or "other" for one that is not standard, to bound the number of series.
func methodLabel(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "other"
}

// Candidates records an answer with allocation candidates.
func (s *Set) Candidates(took time.Duration, found int) {
	s.search.Observe(took.Seconds())
	s.found.Observe(float64(found))
}

// Explain records an explanation.
func (s *Set) Explain(took time.Duration) { s.explain.Observe(took.Seconds()) }

// The outcomes of a claim.
const (
	granted   = "granted"
	refused   = "refused"
	failed    = "failed"
	abandoned = "abandoned"
)

// Claims counts a request to write the allocations of some consumers by its outcome, which err determines.
func (s *Set) Claims(consumers int, err error) {
	outcome := granted
	switch {
	case errors.Is(err, context.Canceled):
		outcome = abandoned
	case isServiceFailure(err):
		outcome = failed
	case err != nil:
		outcome = refused
	}
	s.claims.WithLabelValues(outcome).Add(float64(consumers))
}

// Conflict counts an answer with status 409 and this code.
func (s *Set) Conflict(code string) { s.conflicts.WithLabelValues(code).Inc() }

// Transaction records a completed transaction: its operation, the number of attempts, the time of all attempts, and its
// error.
func (s *Set) Transaction(operation string, attempts int, took time.Duration, err error) {
	s.transactions.WithLabelValues(operation).Observe(took.Seconds())
	if attempts > 1 {
		s.retries.WithLabelValues(operation).Add(float64(attempts - 1))
	}
	if isServiceFailure(err) {
		s.failures.WithLabelValues(operation).Inc()
	}
}

// isServiceFailure reports whether an error is one of the service or the database, and neither a refusal nor caused by
// a client that disconnected.
func isServiceFailure(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	kind := fault.KindOf(err)
	return kind == fault.Unavailable || kind == fault.Internal
}
