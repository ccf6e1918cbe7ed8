package request

import (
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// RefuseLocked returns fault.Conflict if the server is locked, unless the caller is an administrator.
func RefuseLocked(c *Call, found lifecycle.Server) error {
	if found.Lock == nil || c.Who.IsAdmin() {
		return nil
	}
	return fault.New(fault.Conflict, "Instance %s is locked", found.ID)
}

// UnlessLocked returns a handler that refuses locked servers.
func UnlessLocked(handle func(*Call, lifecycle.Server) error) func(*Call, lifecycle.Server) error {
	return func(c *Call, found lifecycle.Server) error {
		if err := RefuseLocked(c, found); err != nil {
			return err
		}
		return handle(c, found)
	}
}

// Caller returns the caller of a request as the history of a server records it.
func Caller(c *Call) lifecycle.Caller {
	return lifecycle.Caller{Request: c.ID, User: c.Who.User, Project: c.Who.Project}
}
