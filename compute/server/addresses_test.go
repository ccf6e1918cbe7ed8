package server

import (
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
)

// TestServerAddresses tests the addresses of a server by network, and the refusals of actions on addresses.
func TestServerAddresses(t *testing.T) {
	h := start(t)
	id := h.running("web")
	if _, err := h.store.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s.Ports = []lifecycle.Port{{ID: "p", NetworkName: "my net", FixedIPs: []lifecycle.FixedIP{{Address: "10.0.0.5"},
			{Address: "fd00::5"}}}, {ID: "q", NetworkName: "other", FixedIPs: []lifecycle.FixedIP{{Address: "10.1.0.5"}}}}
		return s
	}); err != nil {
		t.Fatal(err)
	}
	const first = `"my net":[{"addr":"10.0.0.5","version":4},{"addr":"fd00::5","version":6}]`
	path := "/servers/" + id
	h.exchanges("ann:p1", []exchange{
		{"2.1", "GET", path + "/ips", "", 200, `{"addresses":{` + first + `,"other":[{"addr":"10.1.0.5","version":4}]}}`},
		{"2.1", "GET", path + "/ips/my%20net", "", 200, `{` + first + `}`},
		{"2.1", "GET", path + "/ips/none", "", 404, "not a member of specified network"},
		{"2.1", "POST", path + "/action", `{"addFloatingIp": {"address": "1.2.3.4"}}`, 400,
			"floating IP addresses belong to the network service"},
		{"2.1", "POST", path + "/action", `{"removeFloatingIp": {"address": "1.2.3.4"}}`, 400,
			"floating IP addresses belong to the network service"},
		{"2.1", "POST", path + "/action", `{"addFixedIp": {"networkId": "x"}}`, 400, "os-interface"},
	})
	h.exchanges("bob:p2", []exchange{
		{"2.1", "GET", path + "/ips", "", 404, "could not be found"},
		{"2.1", "GET", path + "/ips/other", "", 404, "could not be found"},
	})
}
