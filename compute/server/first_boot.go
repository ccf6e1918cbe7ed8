package server

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// maxUserData is the largest user_data, in characters of base64, as in the Compute API.
const maxUserData = 65535

// readUserData decodes user_data: base64, with or without line breaks; or nothing.
func readUserData(o *request.Object) string {
	text, _ := o.Text("user_data", 0, maxUserData)
	if _, err := decodeUserData(text); err != nil {
		o.Invalid("user_data", "it is not base64")
	}
	return text
}

func decodeUserData(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
}

// rebuildFirstBoot decodes what a rebuild changes of the guest's first boot: key_name since 2.54 and user_data since
// 2.57. null removes them. It returns nil if neither is given. The key pair is one of the server's owner, as in Nova.
func (s *server) rebuildFirstBoot(c *request.Call, o *request.Object, found lifecycle.Server) (*lifecycle.FirstBoot,
	error) {
	changed := found.FirstBoot
	_, key := o.Keys["key_name"]
	_, data := o.Keys["user_data"]
	key, data = key && c.Has(compute.RebuildKeyPair), data && c.Has(compute.NoPersonality)
	if key {
		changed.KeyName, _ = o.Text("key_name", 0, 255)
		var err error
		if changed.PublicKey, err = s.catalog.PublicKey(c, found.User, changed.KeyName); err != nil {
			return nil, err
		}
	}
	if data {
		changed.UserData = readUserData(o)
	}
	if !key && !data {
		return nil, nil
	}
	return &changed, nil
}

// firstBoot is GET /berth/v1/hosts/{host}/guests/{server}: what the guest of a server that is assigned to the host
// reads from its config drive. User data may contain secrets, so no other host can read it.
func (s *server) firstBoot(c *request.Call) error {
	id, name := c.R.PathValue("server"), c.R.PathValue("host")
	found, err := s.Store.Read(c.R.Context(), id)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found.Entries(), func(e lifecycle.Entry) bool { return e.Host == name }) {
		return fault.New(fault.NotFound, "the server %s is not assigned to the host %s", id, name)
	}
	out := host.FirstBoot{KeyName: found.KeyName, PublicKey: found.PublicKey, Metadata: found.Metadata,
		Project: found.Project, Zone: found.Zone}
	_, out.Index = reservationOf(found.ID)
	if found.UserData != "" {
		if out.UserData, err = decodeUserData(found.UserData); err != nil {
			return fault.Wrap(fault.Internal, err)
		}
	}
	if out.Ports, err = s.bootPorts(c.R.Context(), found); err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, out)
}
