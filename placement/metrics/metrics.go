// Package metrics counts and times what Placement does, for Prometheus.
//
// A Set holds the metrics of one server in a registry of its own; Handler shows them. docs/operations.md lists every name
// with its meaning, and a test holds the two together. Labels have few values: routes are templates, methods and
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

// Index is the state of the index in memory.
type Index struct {
	Trees, Providers int
	Age              time.Duration // since it was last known to be what the database says
	Lag              time.Duration // how long trees have been waiting to be read again; 0: none are
}

// Set is the metrics of one server. It is safe for concurrent use.
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

// durationBuckets are the upper bounds of durations in seconds: from a read out of memory to a slow database.
func durationBuckets() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

const prefix = "berth_placement_"

// New makes a set in which nothing has been counted.
func New() *Set {
	s := &Set{registry: prometheus.NewRegistry()}
	s.requests = s.counters("requests_total", "Requests answered, by route, method and status.", "route", "method", "status")
	s.durations = s.histograms("request_duration_seconds", "Time from the first look at a request to its whole answer, by route and method.", "route", "method")
	s.bytes = s.counters("response_bytes_total", "Bytes of answers' bodies, by route.", "route")
	s.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "requests_in_flight", Help: "Requests being answered now."})
	s.waiting = prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "searches_waiting", Help: "Searches that wait for their turn on a core."})
	s.panics = prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "panics_total", Help: "Requests that met a defect of Berth and were answered 500."})
	s.search = s.histogram("candidates_duration_seconds", "Time that finding allocation candidates and putting them into words took, without sending them.", durationBuckets())
	s.found = s.histogram("candidates_found", "Allocation candidates in an answer.", []float64{0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000})
	s.explain = s.histogram("explain_duration_seconds", "Time that explaining why there are no candidates took.", durationBuckets())
	s.claims = s.counters("claims_total", "Consumers whose allocations were to be written, by outcome: granted, refused (told to the client), failed (of the service) or abandoned (by the client).", "outcome")
	s.conflicts = s.counters("conflicts_total", "Answers 409, by the error's code.", "code")
	s.retries = s.counters("transaction_retries_total", "Transactions carried out again because others changed the same at the same moment, by operation.", "operation")
	s.failures = s.counters("database_errors_total", "Transactions that ended because the database did not do its work, by operation.", "operation")
	s.transactions = s.histograms("transaction_duration_seconds", "Time of transactions with all their attempts, by operation.", "operation")
	s.registry.MustRegister(s.inFlight, s.waiting, s.panics, buildInfo(),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, outcome := range []string{granted, refused, failed, abandoned} {
		s.claims.WithLabelValues(outcome) // so that a rate is 0 and not unknown before the first
	}
	return s
}

func (s *Set) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	s.registry.MustRegister(c)
	return c
}

func (s *Set) histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: durationBuckets()}, labels)
	s.registry.MustRegister(h)
	return h
}

func (s *Set) histogram(name, help string, bounds []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: bounds})
	s.registry.MustRegister(h)
	return h
}

// buildInfo tells which program this is: the version of the module, the revision it was built from, and Go's.
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
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "berth_build_info", Help: "Which program this is; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}

// Handler shows the metrics in Prometheus' text format, to whoever asks.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: false})
}

// WatchIndex makes the set ask for the state of the index whenever the metrics are shown. It is called once.
func (s *Set) WatchIndex(read func() Index) { s.registry.MustRegister(newIndexCollector(read)) }

// Begin counts a request that is being answered, until the function it returns is called.
func (s *Set) Begin() (end func()) {
	s.inFlight.Inc()
	return s.inFlight.Dec
}

// Wait counts a search that waits for its turn, until the function it returns is called.
func (s *Set) Wait() (end func()) {
	s.waiting.Inc()
	return s.waiting.Dec
}

// Panic counts a request that met a defect.
func (s *Set) Panic() { s.panics.Inc() }

// Request counts an answered request. route is a template, empty for a path that is none; size is that of the body in bytes.
func (s *Set) Request(route, method string, status int, took time.Duration, size int64) {
	if route == "" {
		route = "none"
	}
	method = methodLabel(method)
	s.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	s.durations.WithLabelValues(route, method).Observe(took.Seconds())
	s.bytes.WithLabelValues(route).Add(float64(size))
}

// methodLabel keeps methods that a client made up from making series.
func methodLabel(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "other"
}

// Candidates counts an answer with allocation candidates.
func (s *Set) Candidates(took time.Duration, found int) {
	s.search.Observe(took.Seconds())
	s.found.Observe(float64(found))
}

// Explain counts an explanation.
func (s *Set) Explain(took time.Duration) { s.explain.Observe(took.Seconds()) }

// The outcomes of a claim.
const (
	granted   = "granted"
	refused   = "refused"
	failed    = "failed"
	abandoned = "abandoned"
)

// Claims counts a write of the allocations of so many consumers, and how it ended.
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

// Conflict counts an answer 409 with this code.
func (s *Set) Conflict(code string) { s.conflicts.WithLabelValues(code).Inc() }

// Transaction counts a transaction that has ended: the operation it is of, how often it was carried out, all its time, and how it
// ended.
func (s *Set) Transaction(operation string, attempts int, took time.Duration, err error) {
	s.transactions.WithLabelValues(operation).Observe(took.Seconds())
	if attempts > 1 {
		s.retries.WithLabelValues(operation).Add(float64(attempts - 1))
	}
	if isServiceFailure(err) {
		s.failures.WithLabelValues(operation).Inc()
	}
}

// isServiceFailure says whether an error is the service's or the database's: neither a refusal, nor a client that went away.
func isServiceFailure(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	kind := fault.KindOf(err)
	return kind == fault.Unavailable || kind == fault.Internal
}
