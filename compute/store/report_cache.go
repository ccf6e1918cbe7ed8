package store

import (
	"sync"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
)

// reportCache keeps the last report of each host as this process has read or written it, without guests and load. Only
// the process with the lease writes reports. Reports that it returns are shared: no caller changes their lists in
// place. It is safe for concurrent use.
type reportCache struct {
	mu      sync.Mutex
	byName  map[string]schedule.Host
	byRoot  map[provider.ID]string
	changes map[string]uint64 // by host: how often its report was written
	writes  sync.Map          // by host: the *sync.Mutex that orders its writes
}

func newReportCache() *reportCache {
	return &reportCache{byName: map[string]schedule.Host{}, byRoot: map[provider.ID]string{}, changes: map[string]uint64{}}
}

// lock orders the writes of a host's report, so that the cache has the last one.
func (c *reportCache) lock(host string) (unlock func()) {
	mu, _ := c.writes.LoadOrStore(host, &sync.Mutex{})
	mu.(*sync.Mutex).Lock()
	return mu.(*sync.Mutex).Unlock
}

// get returns the report of a host. began is for put.
func (c *reportCache) get(host string) (report schedule.Host, ok bool, began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	report, ok = c.byName[host]
	return report, ok, c.changes[host]
}

// ofRoots returns the reports of the hosts with these root providers, and the roots without a cached report.
func (c *reportCache) ofRoots(roots []provider.ID) (reports []schedule.Host, missing []provider.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, root := range roots {
		if report, ok := c.byName[c.byRoot[root]]; ok && report.Provider == root {
			reports = append(reports, report)
		} else {
			missing = append(missing, root)
		}
	}
	return reports, missing
}

// put keeps a report that was read, unless one was written after get returned began.
func (c *reportCache) put(report schedule.Host, began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes[report.Name] == began {
		c.byName[report.Name], c.byRoot[report.Provider] = report, report.Name
	}
}

// written records that the report of a host was written; nil: it is not known whether it was, or it was deleted.
func (c *reportCache) written(host string, report *schedule.Host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes[host]++
	if old, ok := c.byName[host]; ok && c.byRoot[old.Provider] == host {
		delete(c.byRoot, old.Provider)
	}
	delete(c.byName, host)
	if report != nil {
		c.byName[host], c.byRoot[report.Provider] = *report, host
	}
}
