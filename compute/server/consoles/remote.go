package consoles

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// kind is a kind of consoles that browsers open.
type kind string

// The kinds of consoles that Berth has, as the API names their types.
const (
	noVNC  kind = "novnc"
	serial kind = "serial"
)

// protocols has the types of consoles of each protocol of the API.
var protocols = map[string][]string{"vnc": {"novnc", "xvpvnc"}, "spice": {"spice-html5", "spice-direct"},
	"rdp": {"rdp-html5"}, "serial": {"serial"}, "mks": {"webmks"}}

// remoteRoutes returns the paths of remote consoles.
func remoteRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/remote-consoles": {
			http.MethodPost: request.Since(compute.RemoteConsoles, s.OfServer(policies.CreateConsole, s.createRemote)),
		},
		"/v2.1/os-console-auth-tokens/{token}": {
			http.MethodGet: {Spec: edge.Spec{Rule: policies.ShowConsoleToken, Secret: true}, Handle: s.showToken},
		},
	}
}

// createRemote is POST /v2.1/servers/{id}/remote-consoles.
func (s *Handlers) createRemote(c *request.Call, found lifecycle.Server) error {
	o, others, err := c.Object("remote_console")
	if err == nil {
		err = c.RefuseOthers("remote_console", others)
	}
	if err != nil {
		return err
	}
	protocol, typ := "", ""
	o.Require("protocol", "type")
	o.Word("protocol", &protocol, "vnc", "spice", "rdp", "serial", "mks")
	o.Word("type", &typ, "novnc", "xvpvnc", "spice-html5", "spice-direct", "rdp-html5", "serial", "webmks")
	if o.Err() == nil && (protocol == "mks" && !c.Has(compute.MKSConsoles) ||
		typ == "spice-direct" && !c.Has(compute.SpiceDirect) || !slices.Contains(protocols[protocol], typ)) {
		o.Invalid("type", "%q is not a type of protocol %q in this version", typ, protocol)
	}
	if err := o.Finish(); err != nil {
		return err
	}
	address, err := s.issue(c, found, typ)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"remote_console": map[string]string{"protocol": protocol,
		"type": typ, "url": address}})
}

// Act is the action os-getVNCConsole, os-getSerialConsole, os-getSPICEConsole or os-getRDPConsole, until 2.5.
func (s *Handlers) Act(c *request.Call, raw json.RawMessage, found lifecycle.Server) error {
	if c.Has(compute.RemoteConsoles) {
		return fault.New(fault.NotFound, "The action is not available from microversion 2.6 on; use remote-consoles")
	}
	var body struct{ Type string }
	if err := json.Unmarshal(raw, &body); err != nil || edge.IsNull(raw) {
		return fault.New(fault.Invalid, "Invalid input for the action: it must be an object with the key type")
	}
	address, err := s.issue(c, found, body.Type)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"console": map[string]string{"type": body.Type, "url": address}})
}

// issue returns the URL of a page that opens a console once.
func (s *Handlers) issue(c *request.Call, found lifecycle.Server, typ string) (string, error) {
	if k := kind(typ); k != noVNC && k != serial {
		return "", fault.New(fault.Invalid, "Unavailable console type %s; Berth has novnc and serial", edge.Clip(typ))
	}
	if vm := found.VMState(); found.Host == "" || vm == "stopped" || vm == "suspended" {
		return "", fault.New(fault.Conflict, "Instance %s is not ready", found.ID)
	}
	id, err := s.Tokens.issue(token{found.ID, found.Project, kind(typ), s.Now().Add(s.Pages.TokenTTL)}, s.Now())
	if err != nil {
		return "", err
	}
	s.Log.Info("console requested", "server", found.ID, "type", typ, "user", c.Who.User, "project", c.Who.Project)
	base := c.BaseURL()
	if kind(typ) == serial {
		return base + pagesPath + "/serial.html?token=" + id, nil
	}
	at, err := url.Parse(base)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err)
	}
	socket := strings.TrimPrefix(at.Path+socketPath, "/") + "?token=" + id
	return base + pagesPath + "/novnc/vnc_lite.html?scale=true&path=" + url.QueryEscape(socket), nil
}

// showToken is GET /v2.1/os-console-auth-tokens/{token}, for administrators. No service connects to a host: the port is
// 0.
func (s *Handlers) showToken(c *request.Call) error {
	found, ok := s.Tokens.find(c.R.PathValue("token"), false, s.Now())
	if !ok {
		return fault.New(fault.NotFound, "Token not found")
	}
	if !c.Has(compute.ConsoleTokens) { // which shows tokens of RDP only
		return fault.New(fault.Invalid, "The requested console type details are not accessible")
	}
	now, err := s.Store.Read(c.R.Context(), found.server)
	if err != nil {
		return err
	}
	console := map[string]any{"instance_uuid": found.server, "host": now.Host, "port": 0, "internal_access_path": nil}
	if c.Has(compute.SpiceDirect) {
		console["tls_port"] = nil
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"console": console})
}
