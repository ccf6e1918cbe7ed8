package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
)

// This file has the paths of the Compute API that Berth refuses, with the reason, and those that are always empty.

// notImplemented returns the error of a function that the API has and Berth does not implement.
func notImplemented(format string, args ...any) error {
	return edge.StatusErrorf(http.StatusNotImplemented, format, args...)
}

// refused returns a handler that refuses every request with one reason.
func refused(reason string) func(*call) error {
	return func(*call) error { return notImplemented("%s", reason) }
}

// refusedOfServer returns a handler that refuses every request about a server with one reason. A server that the caller
// may not see is answered like a missing one.
func (s *server) refusedOfServer(reason string) func(*call) error {
	return func(c *call) error {
		if _, err := s.visibleServer(c, false); err != nil {
			return err
		}
		return notImplemented("%s", reason)
	}
}

// empty returns a handler that responds with an empty list under a key.
func empty(key string) func(*call) error {
	return func(c *call) error { return c.writeJSON(http.StatusOK, map[string]any{key: []any{}}) }
}

// emptyOfServer returns a handler that responds with an empty list of a server under a key.
func (s *server) emptyOfServer(key string) func(*call) error {
	return func(c *call) error {
		if _, err := s.visibleServer(c, false); err != nil {
			return err
		}
		return c.writeJSON(http.StatusOK, map[string]any{key: []any{}})
	}
}

// The reasons for which paths and actions are refused.
const (
	noAggregates   = "Berth has no host aggregates; restrict servers to hosts with traits in the flavor"
	noServerGroups = "Berth has no server groups; restrict servers to hosts with traits in the flavor"
	noVolumes      = "Berth has no volumes"
	noNetwork      = "compute has no network service; set [neutron] endpoint_override to use one"
	onPorts        = "addresses and groups belong to ports; attach, detach or change a port (os-interface)"
	noConsoles     = "Berth has no consoles"
	noPower        = "Berth cannot power hosts; `berth host disable` disables a host, `berth host down` declares it dead"
	noQuotas       = "Berth enforces no quotas, so they cannot be changed"
	noAccess       = "Berth has no access lists of flavors; a flavor is public, or only admins use it"
	noAbort        = "Berth cannot abort or force a move in progress; delete the server, or wait for the end of the move"
	// of the service of a host
	noServiceRemoval = "Berth cannot delete a service alone; `berth host forget` removes a host"
	noAgentBuilds    = "Berth has no builds of guest agents"
)

// unsupportedActions are the actions of POST /servers/{id}/action that the API has and Berth refuses, with the reasons.
var unsupportedActions = map[string]string{
	"pause":               "guests cannot be paused; stop the server",
	"unpause":             "guests cannot be paused",
	"suspend":             "guests cannot be suspended; stop or shelve the server",
	"resume":              "guests cannot be suspended",
	"lock":                "servers cannot be locked",
	"unlock":              "servers cannot be locked",
	"rescue":              "guests cannot be rescued",
	"unrescue":            "guests cannot be rescued",
	"restore":             "a deleted server cannot be restored",
	"createImage":         "guests have no snapshots",
	"createBackup":        "guests have no snapshots",
	"trigger_crash_dump":  "guests have no crash dumps",
	"changePassword":      "Berth cannot set a guest's password",
	"addFixedIp":          onPorts,
	"removeFixedIp":       onPorts,
	"addFloatingIp":       onPorts,
	"removeFloatingIp":    onPorts,
	"addSecurityGroup":    onPorts,
	"removeSecurityGroup": onPorts,
	"resetNetwork":        onPorts,
	"injectNetworkInfo":   onPorts,
	"os-getVNCConsole":    noConsoles,
	"os-getSPICEConsole":  noConsoles,
	"os-getRDPConsole":    noConsoles,
	"os-getSerialConsole": noConsoles,
}
