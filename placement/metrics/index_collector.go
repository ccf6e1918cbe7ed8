package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Index is the state of the index in memory.
type Index struct {
	Trees, Providers int
	Age              time.Duration // since it was last known to match the database
	Lag              time.Duration // how long trees have been waiting to be read again; 0: none are waiting
}

// indexCollector reads the state of the index at each scrape.
type indexCollector struct {
	read                       func() Index
	trees, providers, age, lag *prometheus.Desc
}

func newIndexCollector(read func() Index) *indexCollector {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(prefix+name, help, nil, nil) }
	return &indexCollector{
		read:      read,
		trees:     desc("index_trees", "Provider trees in the index."),
		providers: desc("index_providers", "Resource providers in the index."),
		age:       desc("index_age_seconds", "Time since the index was last known to match the database."),
		lag:       desc("index_lag_seconds", "How long trees have been waiting to be read again; 0 if none are waiting."),
	}
}

// Describe implements prometheus.Collector.
func (c *indexCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.trees, c.providers, c.age, c.lag} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *indexCollector) Collect(to chan<- prometheus.Metric) {
	now := c.read()
	for d, v := range map[*prometheus.Desc]float64{
		c.trees: float64(now.Trees), c.providers: float64(now.Providers),
		c.age: now.Age.Seconds(), c.lag: now.Lag.Seconds(),
	} {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
}

// WatchIndex makes the set read the state of the index at each scrape. Call it at most once.
func (s *Set) WatchIndex(read func() Index) { s.Registry.MustRegister(newIndexCollector(read)) }
