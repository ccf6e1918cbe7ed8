package server

import (
	"context"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// This file has the changes of a server that need no action on its guest: name, description, metadata and tags.

// changeDetails reads the details of a server, passes them to change, and stores the result, in one transaction. change
// may be called more than once; if it returns an error nothing is stored, and the error is returned. It also gets the
// server, which it must not change.
func (s *server) changeDetails(ctx context.Context, id string,
	change func(lifecycle.Server, *lifecycle.Details) error) (lifecycle.Server, error) {
	var refused error
	found, err := s.Store.Change(ctx, id, func(found lifecycle.Server) lifecycle.Server {
		if !found.Ended.IsZero() { // deleted since it was read
			refused = fault.New(fault.NotFound, "Instance %s could not be found.", id)
			return found
		}
		d := found.Details()
		if refused = change(found, &d); refused != nil {
			return found
		}
		return found.WithDetails(d, s.Now())
	})
	if err == nil {
		err = refused
	}
	return found, err
}

// updateServer is PUT /v2.1/servers/{id}: it changes the name and, since 2.19, the description. Nova's rule is
// os_compute_api:servers:update.
func (s *server) updateServer(c *request.Call, found lifecycle.Server) error {
	o, others, err := c.Wrapped("server")
	if err == nil {
		err = request.RefuseOthers("server", others)
	}
	if err != nil {
		return err
	}
	name, description, describe := found.Name, "", false
	_, rename := o.Keys["name"]
	if rename {
		name = o.NameText("name")
	}
	if c.Has(compute.ServerDescription) {
		_, describe = o.Keys["description"]
		description, _ = o.Text("description", 0, 255)
	}
	if disk, ok := o.Text("OS-DCF:diskConfig", 0, 16); ok && disk != "MANUAL" && disk != "AUTO" {
		o.Invalid("OS-DCF:diskConfig", "it is %q, and should be AUTO or MANUAL", disk)
	}
	if err := o.Finish(unsupportedKeys(c.Microversion)); err != nil {
		return err
	}
	found, err = s.changeDetails(c.R.Context(), found.ID, func(_ lifecycle.Server, d *lifecycle.Details) error {
		if rename {
			d.Name = name
		}
		if describe {
			d.Description = description
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.writeServer(c, found)
}
