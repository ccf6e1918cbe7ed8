package store

import (
	"reflect"
	"sync"
	"time"

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
	changes map[string]uint64        // by host: how often its report was written
	machine map[string]schedule.Host // the reports that ofRoots has returned, WithMachine
	writes  hostLocks                // so that the cache has the last report of a host

	total  uint64              // sum of changes
	sorted []string            // names of all hosts, if byName has all of them; nil: it may lack some
	rooted []schedule.HostRoot // the hosts of sorted with their roots; nil: to be made again

	own      map[string]bool      // hosts whose stored report was written by this process, so in the current version
	unstored map[string]time.Time // by host: Seen of a repeated report, if the database has an earlier one
	oldest   time.Time            // the first Seen that was added to unstored
}

// A repeated report changes only Seen, which is stored with that of other hosts: when this many wait, or when the first
// has waited for this long. The database may lag behind by that time and an interval of reports; see recent in
// compute/conductor, which compares Seen of several hosts with a limit of three minutes.
const (
	maxUnstoredSeen = 500
	storeSeenAfter  = 30 * time.Second
)

func newReportCache() *reportCache {
	return &reportCache{byName: map[string]schedule.Host{}, byRoot: map[provider.ID]string{}, changes: map[string]uint64{},
		machine: map[string]schedule.Host{}, own: map[string]bool{}, unstored: map[string]time.Time{}}
}

// lock orders the writes of a host's report.
func (c *reportCache) lock(host string) (unlock func()) { return c.writes.lock(host) }

// get returns the report of a host. began is for put.
func (c *reportCache) get(host string) (report schedule.Host, ok bool, began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	report, ok = c.byName[host]
	return report, ok, c.changes[host]
}

// ofRoots returns the reports of the hosts with these root providers, WithMachine, and the roots without a cached
// report.
func (c *reportCache) ofRoots(roots []provider.ID) (reports []schedule.Host, missing []provider.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, root := range roots {
		if report, ok := c.byName[c.byRoot[root]]; ok && report.Provider == root {
			machine, known := c.machine[report.Name]
			if !known {
				machine = report.WithMachine()
				c.machine[report.Name] = machine
			}
			machine.Seen = report.Seen
			reports = append(reports, machine)
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
		delete(c.machine, report.Name)
	}
}

// written records that the report of a host was written; nil: it is not known whether it was, or it was deleted.
func (c *reportCache) written(host string, report *schedule.Host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes[host]++
	c.total++
	old, known := c.byName[host]
	if report == nil || !known {
		c.sorted = nil
	}
	if report == nil || !known || report.Provider != old.Provider {
		c.rooted = nil
	}
	if known && c.byRoot[old.Provider] == host {
		delete(c.byRoot, old.Provider)
	}
	delete(c.byName, host)
	delete(c.machine, host)
	delete(c.unstored, host)
	delete(c.own, host)
	if report != nil {
		c.own[host] = true
		c.byName[host], c.byRoot[report.Provider] = *report, host
	}
}

// isRepeated reports whether a report differs from the last one at most in a later Seen. The last one must have been
// written by this process: the first report after a start is stored in the current version of the record.
func (c *reportCache) isRepeated(host schedule.Host) bool {
	c.mu.Lock()
	known, own := c.byName[host.Name], c.own[host.Name]
	c.mu.Unlock()
	later := !host.Seen.Before(known.Seen) // otherwise the database, whose time is stored later, would be ahead
	known.Seen, host.Seen = time.Time{}, time.Time{}
	return own && later && reflect.DeepEqual(known, host)
}

// seen records when the last report of a host was repeated. It returns the times that are to be stored now; nil: none.
func (c *reportCache) seen(host string, at time.Time) (store map[string]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	report := c.byName[host]
	report.Seen = at
	c.byName[host] = report
	if len(c.unstored) == 0 {
		c.oldest = at
	}
	if c.unstored[host] = at; len(c.unstored) < maxUnstoredSeen && at.Sub(c.oldest) < storeSeenAfter {
		return nil
	}
	store = c.unstored
	c.unstored = map[string]time.Time{}
	return store
}

// notStored records again what seen has returned, because it could not be stored.
func (c *reportCache) notStored(seen map[string]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for host, at := range seen {
		if _, newer := c.unstored[host]; !newer {
			c.unstored[host] = at
		}
	}
}

// all returns the reports of all hosts by name, or false if some may not be cached. began is for putAll.
func (c *reportCache) all() (list []schedule.Host, ok bool, began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorted == nil {
		return nil, false, c.total
	}
	list = make([]schedule.Host, 0, len(c.sorted))
	for _, name := range c.sorted {
		list = append(list, c.byName[name])
	}
	return list, true, 0
}

// roots returns the names and roots of all hosts by name, or false if some may not be cached. The list is shared.
func (c *reportCache) roots() (list []schedule.HostRoot, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rooted == nil && c.sorted != nil {
		c.rooted = make([]schedule.HostRoot, 0, len(c.sorted))
		for _, name := range c.sorted {
			c.rooted = append(c.rooted, schedule.HostRoot{Name: name, Root: c.byName[name].Provider})
		}
	}
	return c.rooted, c.sorted != nil
}

// putAll keeps the reports of all hosts, by name, unless a report was written after all returned began.
func (c *reportCache) putAll(list []schedule.Host, began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total != began {
		return
	}
	c.sorted, c.rooted = make([]string, 0, len(list)), nil
	for _, report := range list {
		c.sorted = append(c.sorted, report.Name)
		if _, known := c.byName[report.Name]; !known { // otherwise Seen may be newer than in the database
			c.byName[report.Name], c.byRoot[report.Provider] = report, report.Name
		}
	}
}
