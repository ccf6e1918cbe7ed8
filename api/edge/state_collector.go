package edge

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	stateAge     = 10 * time.Second // a state is read again when it is older
	stateShare   = 50               // and when as many times have passed as reading it took
	stateTimeout = 8 * time.Second  // of reading it; Prometheus waits 10 s for a scrape
)

// Gauges are gauges whose values are read when they are scraped.
type Gauges struct {
	desc  *prometheus.Desc
	names []string // of the labels
}

// Gauges returns gauges with labels. They belong to a WatchState, which registers them.
func (m *Metrics) Gauges(name, help string, labels ...string) *Gauges {
	return &Gauges{prometheus.NewDesc(m.prefix+name, help, labels, nil), labels}
}

// Sample is the value of a gauge with the values of its labels.
type Sample struct {
	Of     *Gauges
	Value  float64
	Labels []string
}

// WatchState registers gauges whose values read returns. It is called when they are scraped and the last values are
// older than 10 s, and than 50 times what reading them took; it is given 8 s. After an error they have no values, and a
// counter state_errors_total counts it: numbers of before would hide the failure. Call it at most once.
func (m *Metrics) WatchState(read func(context.Context) ([]Sample, error), gauges ...*Gauges) {
	failures := prometheus.NewCounter(prometheus.CounterOpts{Name: m.prefix + "state_errors_total",
		Help: "Failures to read what the gauges of the service's state show."})
	m.Registry.MustRegister(&stateCollector{read: read, gauges: gauges, failures: failures, now: time.Now})
}

// stateCollector reads the state of a service at a scrape.
type stateCollector struct {
	read     func(context.Context) ([]Sample, error)
	gauges   []*Gauges
	failures prometheus.Counter
	now      func() time.Time

	mu   sync.Mutex // held while the state is read, so that scrapes share it
	last []Sample
	next time.Time // when it is read again
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(to chan<- *prometheus.Desc) {
	for _, g := range c.gauges {
		to <- g.desc
	}
	c.failures.Describe(to)
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c.state() {
		to <- prometheus.MustNewConstMetric(s.Of.desc, prometheus.GaugeValue, s.Value, s.Labels...)
	}
	c.failures.Collect(to) // with the failure of this scrape
}

// state returns the last state, or reads it.
func (c *stateCollector) state() []Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := c.now()
	if began.Before(c.next) {
		return c.last
	}
	ctx, stop := context.WithTimeout(context.Background(), stateTimeout)
	defer stop()
	list, err := c.read(ctx)
	if err != nil {
		c.failures.Inc()
		c.last, c.next = nil, time.Time{}
		return nil
	}
	ended := c.now()
	c.last, c.next = list, ended.Add(max(stateAge, stateShare*ended.Sub(began)))
	return list
}
