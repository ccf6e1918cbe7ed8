package actions

import (
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
	"github.com/openberth/berth/fault"
)

// readRescue decodes rescue: the password, and the image to boot, which is that of the server if none is given.
func readRescue(s *Handlers, c *request.Call, o *edge.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	w.AdminPass, w.Image = servers.ReadPassword(o), found.Image
	o.Text("rescue_image_ref", &w.Image, 255)
	if o.Err() != nil {
		return o.Err()
	}
	if w.Image == "" {
		return fault.New(fault.Invalid, "Instance %s cannot be rescued: it has no image; give rescue_image_ref",
			found.ID)
	}
	// its disk is a further one, so the flavor does not limit it
	limits := flavor.Flavor{MemoryMB: found.Flavor.MemoryMB}
	_, err := s.Servers.FindImage(c, limits, w.Image, "Cannot find image for rescue", false)
	return err
}

// answerPassword responds with the password of an action.
func answerPassword(s *Handlers, c *request.Call, _ lifecycle.Server, want lifecycle.ActionRequested) error {
	return c.WriteJSON(http.StatusOK, compute.Passworded{AdminPass: servers.ShownPassword(s.Servers, want.AdminPass)})
}
