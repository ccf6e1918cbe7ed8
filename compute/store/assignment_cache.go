package store

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// assignmentCache keeps the entries and removals of the hosts whose assignments are subscribed, so that the cost of new
// assignments depends on the servers that have changed and not on all servers of the host. Only the process with the
// lease changes servers, so it knows which have changed: a change is begun before its COMMIT and ends after it, and
// until then the server is read with each request. It is safe for concurrent use.
type assignmentCache struct {
	mu    sync.Mutex
	hosts map[string]*hostAssignments // all that have, or had, a subscriber or a changing server
}

// hostAssignments are the assignments of one host. The lists are replaced and never modified, because callers keep
// them.
type hostAssignments struct {
	reading sync.Mutex // held while the host is read

	// The rest is guarded by assignmentCache.mu.

	kept     bool            // the host has a subscriber
	forgot   int             // how often it was forgotten
	known    bool            // the lists are those of revision, apart from changed
	changed  map[string]bool // servers that have changed since, or may have
	changing map[string]int  // how many changes of a server have begun and not ended

	revision int64
	entries  []*Entry        // by consumer
	removals []serverRemoval // by consumer
}

// serverRemoval is a removal that follows from the record of a server.
type serverRemoval struct {
	lifecycle.Removal
	server lifecycle.Server
}

func newAssignmentCache() *assignmentCache {
	return &assignmentCache{hosts: map[string]*hostAssignments{}}
}

// keep begins to keep the assignments of a host; forget ends it.
func (c *assignmentCache) keep(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host(host).kept = true
}

// host returns the entry of a host. The caller holds the lock.
func (c *assignmentCache) host(name string) *hostAssignments {
	if c.hosts[name] == nil {
		c.hosts[name] = &hostAssignments{changed: map[string]bool{}, changing: map[string]int{}}
	}
	return c.hosts[name]
}

func (c *assignmentCache) forget(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.host(host)
	h.kept, h.known, h.entries, h.removals, h.changed = false, false, nil, nil, map[string]bool{}
	h.forgot++
}

// begin begins a change of a server before its COMMIT. The caller calls end after the COMMIT, or when none will follow.
// If the outcome is unknown, the COMMIT may still happen: the change never ends, and the server is read each time.
func (c *assignmentCache) begin(before, after lifecycle.Server) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var begun []*hostAssignments
	for _, s := range []lifecycle.Server{before, after} {
		for _, residence := range s.Residences() {
			h := c.host(residence.Host)
			if residence.Host == "" || slices.Contains(begun, h) {
				continue
			}
			h.changed[after.ID] = true
			h.changing[after.ID]++
			begun = append(begun, h)
		}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, h := range begun {
			h.changed[after.ID] = true
			if h.changing[after.ID]--; h.changing[after.ID] == 0 {
				delete(h.changing, after.ID)
			}
		}
	}
}

// endAll ends the changes of all attempts of a transaction that has ended with err.
func (c *assignmentCache) endAll(ends []func(), err error) {
	if err != nil && fault.Is(err, fault.Unavailable) {
		return // see begin
	}
	for _, end := range ends {
		end()
	}
}

// read begins a reading of a host, and returns its assignments as they are known and the servers that must be read
// again. It returns nil if the host is not kept. Otherwise the caller calls done with the result; nil after an error.
func (c *assignmentCache) read(host string) (known *hostAssignments, done func(result *hostAssignments)) {
	c.mu.Lock()
	h := c.host(host)
	kept := h.kept
	c.mu.Unlock()
	if !kept {
		return nil, func(*hostAssignments) {}
	}
	h.reading.Lock()
	c.mu.Lock()
	defer c.mu.Unlock()
	known = &hostAssignments{known: h.known, changed: h.changed, revision: h.revision, entries: h.entries,
		removals: h.removals}
	h.changed = map[string]bool{}
	forgot := h.forgot
	for id := range h.changing { // what is read now may be from before its COMMIT
		h.changed[id] = true
	}
	return known, func(result *hostAssignments) {
		defer h.reading.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		if result == nil || h.forgot != forgot { // what has changed since the beginning of the reading is forgotten, too
			h.known = false
			return
		}
		h.known, h.revision, h.entries, h.removals = true, result.revision, result.entries, result.removals
	}
}

// with returns the assignments of a host in which those of a server are replaced. A server that is not on the host any
// more has none.
func (h *hostAssignments) with(host string, server lifecycle.Server) *hostAssignments {
	out := &hostAssignments{revision: h.revision}
	out.entries = slices.DeleteFunc(slices.Clone(h.entries), func(e *Entry) bool { return e.Server.ID == server.ID })
	out.removals = slices.DeleteFunc(slices.Clone(h.removals),
		func(r serverRemoval) bool { return r.server.ID == server.ID })
	out.add(host, server)
	return out
}

// add adds the entries and removals of a server to those of a host.
func (h *hostAssignments) add(host string, server lifecycle.Server) {
	for _, e := range server.Entries() {
		if e.Host == host {
			at, _ := slices.BinarySearchFunc(h.entries, e.Consumer,
				func(e *Entry, consumer string) int { return cmp.Compare(e.Consumer, consumer) })
			h.entries = slices.Insert(h.entries, at, &Entry{Entry: e, Server: server})
		}
	}
	for _, r := range server.Removals() {
		if r.Host == host {
			at, _ := slices.BinarySearchFunc(h.removals, r.Consumer,
				func(r serverRemoval, consumer string) int { return cmp.Compare(r.Consumer, consumer) })
			h.removals = slices.Insert(h.removals, at, serverRemoval{r, server})
		}
	}
}

// removalsWith returns the removals of a host: those of the servers, and the recorded ones that no server mentions.
func (h *hostAssignments) removalsWith(host string, recorded []string) []lifecycle.Removal {
	var list []lifecycle.Removal
	for _, r := range h.removals {
		list = append(list, r.Removal)
	}
	if len(recorded) == 0 {
		return list
	}
	list = lifecycle.RemovalsAt(host, h.servers(), recorded)
	slices.SortFunc(list, func(a, b lifecycle.Removal) int { return cmp.Compare(a.Consumer, b.Consumer) })
	return list
}

// servers returns the servers with entries or removals.
func (h *hostAssignments) servers() []lifecycle.Server {
	byID := map[string]lifecycle.Server{}
	for _, e := range h.entries {
		byID[e.Server.ID] = e.Server
	}
	for _, r := range h.removals {
		byID[r.server.ID] = r.server
	}
	return slices.Collect(maps.Values(byID))
}

// Entry is a guest that must be on a host, and its server.
type Entry struct {
	lifecycle.Entry
	Server lifecycle.Server
}
