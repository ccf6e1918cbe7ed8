package store

import (
	"sync"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
)

// hostCache keeps the hosts that Reports has read, with their guests. A host is dropped when this process changes its
// report or a server with devices or cells there; only the process with the lease changes them. Hosts that it returns
// are shared: no caller changes their devices or guests in place. It is safe for concurrent use.
type hostCache struct {
	mu      sync.Mutex
	byRoot  map[provider.ID]cachedHost
	byName  map[string]provider.ID // of the hosts in byRoot
	drops   uint64                 // how often hosts were dropped
	dropped map[string]uint64      // by name: drops when the host was last dropped
	cleared uint64                 // drops when all were last dropped
}

// cachedHost is a host, or the result that no host has this root provider.
type cachedHost struct {
	host  schedule.Host
	known bool
}

func newHostCache() *hostCache {
	return &hostCache{byRoot: map[provider.ID]cachedHost{}, byName: map[string]provider.ID{}, dropped: map[string]uint64{}}
}

// get returns the cached hosts with these roots, and the roots that are not cached. began is for put.
func (c *hostCache) get(roots []provider.ID) (
	found map[provider.ID]schedule.Host, missing []provider.ID, began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found = make(map[provider.ID]schedule.Host, len(roots))
	for _, root := range roots {
		switch cached, ok := c.byRoot[root]; {
		case !ok:
			missing = append(missing, root)
		case cached.known:
			found[root] = cached.host
		}
	}
	return found, missing, c.drops
}

// put keeps the hosts that were read for these roots. It leaves out hosts that were dropped after get returned began,
// because they may have been read before that change.
func (c *hostCache) put(roots []provider.ID, read map[provider.ID]schedule.Host, began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, root := range roots {
		host, known := read[root]
		switch {
		case known && max(c.cleared, c.dropped[host.Name]) <= began:
			c.byRoot[root], c.byName[host.Name] = cachedHost{host, true}, root
		case !known && c.drops == began:
			c.byRoot[root] = cachedHost{}
		}
	}
}

// drop forgets hosts by name, and that there is no host with the root provider, if it is not empty.
func (c *hostCache) drop(root provider.ID, names ...string) {
	if len(names) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	delete(c.byRoot, root)
	for _, name := range names {
		c.dropped[name] = c.drops
		delete(c.byRoot, c.byName[name])
		delete(c.byName, name)
	}
}

// clear forgets all hosts.
func (c *hostCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	c.cleared = c.drops
	clear(c.byRoot)
	clear(c.byName)
}

// seen changes when a host was seen. A host that is being read at the same time is not kept, because it may be older.
func (c *hostCache) seen(name string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	c.dropped[name] = c.drops
	root, ok := c.byName[name]
	if !ok {
		return
	}
	cached := c.byRoot[root]
	cached.host.Seen = at
	c.byRoot[root] = cached
}
