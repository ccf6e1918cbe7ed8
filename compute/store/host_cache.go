package store

import (
	"sync"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
)

// hostCache keeps the hosts that Reports has read, with their guests. A host is dropped when this process changes its
// report or a server with devices or cells there, unless that only adds a guest. Only the process with the lease
// changes them. Hosts that it returns are shared: no caller changes their devices or guests in place. It is safe for
// concurrent use.
type hostCache struct {
	mu      sync.Mutex
	byRoot  map[provider.ID]cachedHost
	byName  map[string]provider.ID // of the hosts in byRoot
	drops   uint64                 // how often hosts were dropped
	dropped map[string]uint64      // by name: drops when the host was last dropped
	cleared uint64                 // drops when all were last dropped
	doubt   *time.Time             // the last one after whose end trust has dropped what was read before
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
		case known && c.versionOf(host.Name) <= began:
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

// trust forgets all hosts if a write has ended in a way that is not known: at each call until that is over, and once
// when it is, because a host may have been read before the COMMIT of that write. See lease.Database.Alone.
func (c *hostCache) trust(alone bool, doubt *time.Time) {
	if doubt == nil {
		return
	}
	c.mu.Lock()
	known := alone && c.doubt == doubt
	if alone {
		c.doubt = doubt
	}
	c.mu.Unlock()
	if !known {
		c.clear()
	}
}

// version returns a number that differs after each change of a host. began of add is that of before the COMMIT.
func (c *hostCache) version(name string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.versionOf(name)
}

// versionOf is version for a caller that holds the lock.
func (c *hostCache) versionOf(name string) uint64 { return max(c.cleared, c.dropped[name]) }

// add replaces a host after a COMMIT by what with returns for it, which is the host with a new guest. If with refuses,
// or if the host has changed since began, it drops the host: the guest of the same server may have changed again.
func (c *hostCache) add(name string, began uint64, with func(schedule.Host) (schedule.Host, bool)) {
	c.mu.Lock()
	root, cached := c.byName[name]
	old := c.byRoot[root].host
	cached = cached && c.versionOf(name) == began
	c.mu.Unlock()
	if cached {
		old, cached = with(old) // outside of the lock, because it takes as long as hundreds of calls of get
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cached = cached && c.versionOf(name) == began
	c.drops++ // what was read before the COMMIT is not kept
	c.dropped[name] = c.drops
	if cached {
		c.byRoot[root] = cachedHost{old, true}
		return
	}
	delete(c.byRoot, c.byName[name])
	delete(c.byName, name)
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
