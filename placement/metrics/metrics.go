// Package metrics holds the Prometheus metrics of the Placement service.
//
// A Set holds the metrics of one server in its own registry; Handler exposes them. docs/placement-operations.md lists
// every metric with its meaning, and a test compares the two. Labels have few values: routes are templates, methods and
// codes are those of the API.
package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// Set holds the metrics of one server. It is safe for concurrent use.
type Set struct {
	*edge.Metrics // of requests and of the process

	waiting      prometheus.Gauge
	search       prometheus.Histogram
	found        prometheus.Histogram
	explain      prometheus.Histogram
	claims       *prometheus.CounterVec
	conflicts    *prometheus.CounterVec
	retries      *prometheus.CounterVec
	failures     *prometheus.CounterVec
	transactions *prometheus.HistogramVec
}

const prefix = "berth_placement_"

// New returns a set with all counters at 0.
func New() *Set {
	s := &Set{Metrics: edge.NewMetrics(prefix)}
	s.waiting = prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "searches_waiting",
		Help: "Searches that wait for their turn on a core."})
	s.search = s.histogram("candidates_duration_seconds",
		"Time to find and encode allocation candidates, without sending them.", edge.DurationBuckets())
	s.found = s.histogram("candidates_found", "Allocation candidates in an answer.",
		[]float64{0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000})
	s.explain = s.histogram("explain_duration_seconds", "Time to explain why there are no candidates.",
		edge.DurationBuckets())
	s.claims = s.Counters("claims_total", "Consumers in requests to write allocations, by outcome: granted, "+
		"refused (error of the client), failed (error of the service) or abandoned (the client disconnected).", "outcome")
	s.conflicts = s.Counters("conflicts_total", "Answers with status 409, by error code.", "code")
	s.retries = s.Counters("transaction_retries_total",
		"Transactions repeated because of a conflict with another transaction, by operation.", "operation")
	s.failures = s.Counters("database_errors_total",
		"Transactions that failed because of an error of the database, by operation.", "operation")
	s.transactions = s.Histograms("transaction_duration_seconds",
		"Time of transactions with all their attempts, by operation.", "operation")
	s.Registry.MustRegister(s.waiting)
	for _, outcome := range []string{granted, refused, failed, abandoned} {
		s.claims.WithLabelValues(outcome) // so that the series exist before the first claim
	}
	return s
}

func (s *Set) histogram(name, help string, bounds []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: bounds})
	s.Registry.MustRegister(h)
	return h
}

// Wait counts a search as waiting until the returned function is called.
func (s *Set) Wait() (end func()) {
	s.waiting.Inc()
	return s.waiting.Dec
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
