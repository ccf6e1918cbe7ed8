package request

import (
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/operations"
)

// IsShared reports whether an object is shared with the project of the caller, or with all. The route of the request
// must be one of WithShares, or its handler calls NeedShares.
func (c *Call) IsShared(id string) bool {
	if c.shares == nil {
		panic("the request did not load what is shared")
	}
	return c.shares[id]
}

// LoadShares reads the objects that are shared with the project of the caller.
func (c *Call) LoadShares() (err error) {
	c.shares, err = operations.Sharing{Service: c.Service.Ops}.With(c.R.Context(), c.Who.Project)
	return err
}

// NeedShares is LoadShares if they are not loaded.
func (c *Call) NeedShares() error {
	if c.shares != nil {
		return nil
	}
	return c.LoadShares()
}

// WithShares returns routes whose handlers of these methods know what is shared with the project of the caller; those
// of every method without any.
func WithShares(routes []edge.Route[*Call], of ...string) []edge.Route[*Call] {
	for i, route := range routes {
		wrapped := Methods{}
		for name, m := range route.Methods {
			if handle := m.Handle; len(of) == 0 || slices.Contains(of, name) {
				m.Handle = func(c *Call) error {
					if err := c.LoadShares(); err != nil {
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
