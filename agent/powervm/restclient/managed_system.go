package restclient

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// systemCache is the last answer about the managed systems.
type systemCache struct {
	sync.Mutex
	etag   string
	system uom.ManagedSystem
}

// ManagedSystem reads the managed system of the options. It is one GET; if nothing has changed since the last call,
// the server answers 304 without a body, nothing is decoded, and changed is false (R45, G3). An error clears what is
// remembered, so the next call is a whole one.
func (c *Client) ManagedSystem(ctx context.Context) (system uom.ManagedSystem, changed bool, err error) {
	const path = "/uom/ManagedSystem"
	c.systems.Lock() // not held during the request: one that hangs must not stop others
	known, etag := c.systems.system, c.systems.etag
	c.systems.etag = ""
	c.systems.Unlock()
	a, err := c.get(ctx, path, etag)
	if err != nil {
		return uom.ManagedSystem{}, false, err
	}
	c.systems.Lock()
	defer c.systems.Unlock()
	if a.status == http.StatusNotModified {
		c.systems.etag, c.systems.system = etag, known
		return known, false, nil
	}
	entries, err := uom.Systems(a.body)
	if err != nil {
		return uom.ManagedSystem{}, false, malformed(path, err)
	}
	system, err = choose(entries, c.options.System)
	if err != nil {
		return uom.ManagedSystem{}, false, err
	}
	c.systems.etag, c.systems.system = a.etag, system
	return system, true, nil
}

// RawManagedSystems returns the answer to a request for all managed systems, as a recording.
func (c *Client) RawManagedSystems(ctx context.Context) ([]byte, error) {
	a, err := c.get(ctx, "/uom/ManagedSystem", "")
	return a.body, err
}

// choose returns the system with a UUID or name, or the only one.
func choose(entries []uom.Entry[uom.ManagedSystem], want string) (uom.ManagedSystem, error) {
	var names []string
	for _, e := range entries {
		names = append(names, e.Object.SystemName)
		if want != "" && (strings.EqualFold(e.Object.UUID, want) || e.Object.SystemName == want) {
			return e.Object, nil
		}
	}
	switch {
	case len(entries) == 0:
		return uom.ManagedSystem{}, fault.New(fault.Unavailable, "the server reports no managed system; it is retried")
	case want != "":
		return uom.ManagedSystem{}, fault.New(fault.NotFound, "the server has no managed system %q, but %s; correct "+
			"[powervm] system", want, strings.Join(names, ", "))
	case len(entries) > 1:
		return uom.ManagedSystem{}, fault.New(fault.Invalid, "the server has %d managed systems: %s; name one in "+
			"[powervm] system", len(entries), strings.Join(names, ", "))
	}
	return entries[0].Object, nil
}
