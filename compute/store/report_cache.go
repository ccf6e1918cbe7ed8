package store

import (
	"bytes"
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
	changes map[string]uint64 // by host: how often its report was written
	writes  sync.Map          // by host: the *sync.Mutex that orders its writes

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
		unstored: map[string]time.Time{}}
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
	delete(c.unstored, host)
	if report != nil {
		c.byName[host], c.byRoot[report.Provider] = *report, host
	}
}

// repeats reports whether two reports of a host, of which the second has this text, differ at most in Seen.
func repeats(known, host schedule.Host, text []byte) bool {
	known.Seen, host.Seen = time.Time{}, time.Time{}
	if reflect.DeepEqual(known, host) {
		return true
	}
	before, err := encodeHost(known) // in memory a list without elements may be nil or not
	return err == nil && bytes.Equal(before, text)
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
