package edge

import (
	"net"
	"net/http"
	"strings"

	"github.com/openberth/berth/api/audit"
)

// audit records a request that writes. What services and agents report at short intervals is recorded only if it fails.
// Refused requests of callers that were not authenticated are only counted.
func (c *Call) audit(status int) {
	if c.core.Audit == nil || !audit.Writes(c.R.Method) || c.Spec.Quiet && status < 400 {
		return
	}
	if status == http.StatusUnauthorized || status >= 400 && !c.known {
		c.core.Audit.CountUnknown(c.core.Service, status)
		return
	}
	path, _, _ := strings.Cut(c.loggedURI(), "?")
	r := audit.Request{Service: c.core.Service, Method: c.R.Method, Path: path, Matched: c.R.URL.Path, Route: c.Route(),
		Action: c.Action, Rule: c.Spec.Rule, Status: status, Gone: c.clientGone, IDs: []string{c.ID}, At: c.began,
		Initiator: audit.Resource{ID: c.Who.User, Name: c.Who.UserName, Domain: c.Who.UserDomain,
			ProjectID: c.Who.Project, ProjectName: c.Who.ProjectName,
			Host: &audit.Host{Address: hostOf(c.R.RemoteAddr), Agent: c.R.UserAgent()}}}
	if c.Spec.Secret {
		r.Matched = c.Route()
	}
	if global := c.globalID(); global != "" {
		r.IDs = append(r.IDs, global)
	}
	c.core.Audit.Record(audit.NewEvent(r))
}

// hostOf returns an address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
