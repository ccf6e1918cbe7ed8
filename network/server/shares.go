package server

import (
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/operations"
)

// isShared reports whether an object is shared with the project of the caller, or with all. The route of the request
// must be one of withShares, or its handler calls needShares.
func (c *call) isShared(id string) bool {
	if c.shares == nil {
		panic("the request did not load what is shared")
	}
	return c.shares[id]
}

// loadShares reads the objects that are shared with the project of the caller.
func (c *call) loadShares() (err error) {
	c.shares, err = operations.Sharing{Service: c.service.ops}.With(c.R.Context(), c.Who.Project)
	return err
}

// needShares is loadShares if they are not loaded.
func (c *call) needShares() error {
	if c.shares != nil {
		return nil
	}
	return c.loadShares()
}

// withShares returns routes whose handlers of these methods know what is shared with the project of the caller; those
// of every method without any.
func withShares(routes []edge.Route[*call], of ...string) []edge.Route[*call] {
	for i, route := range routes {
		wrapped := methods{}
		for name, m := range route.Methods {
			if handle := m.Handle; len(of) == 0 || slices.Contains(of, name) {
				m.Handle = func(c *call) error {
					if err := c.loadShares(); err != nil {
						return err
					}
					return handle(c)
				}
			}
			wrapped[name] = m
		}
		routes[i].Methods = wrapped
	}
	return routes
}
