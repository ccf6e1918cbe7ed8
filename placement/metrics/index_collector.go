package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/placement/index"
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

// maxAggregates is how many aggregates have series of their own: those with most provider trees.
const maxAggregates = 100

// WatchResources makes the set show what the providers of a snapshot have and what of it is used, by class, and by
// class and aggregate. Call it at most once.
func (s *Set) WatchResources(snapshot func() *index.Snapshot) {
	capacity := s.Gauges("capacity", "Capacity of all providers, (total - reserved) * allocation_ratio, by class.",
		"class")
	used := s.Gauges("used", "Amounts that consumers have, by class.", "class")
	inAggregate := s.Gauges("aggregate_capacity", "Capacity of the trees whose root is in an aggregate, by aggregate and "+
		"class, of the 100 aggregates with most trees.", "aggregate", "class")
	usedInAggregate := s.Gauges("aggregate_used", "Amounts that consumers have of these trees.", "aggregate", "class")
	s.WatchState(func(context.Context) (list []edge.Sample, err error) {
		all, of := snapshot().Sums(maxAggregates)
		for class, sum := range all {
			labels := []string{string(class)}
			list = append(list, edge.Sample{Of: capacity, Value: float64(sum.Capacity), Labels: labels},
				edge.Sample{Of: used, Value: float64(sum.Used), Labels: labels})
		}
		for aggregate, sums := range of {
			for class, sum := range sums {
				labels := []string{string(aggregate), string(class)}
				list = append(list, edge.Sample{Of: inAggregate, Value: float64(sum.Capacity), Labels: labels},
					edge.Sample{Of: usedInAggregate, Value: float64(sum.Used), Labels: labels})
			}
		}
		return list, nil
	}, capacity, used, inAggregate, usedInAggregate)
}
