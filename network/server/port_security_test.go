package server

import "testing"

// TestPortsInheritPortSecurity creates ports in a network without port security: they have the value of the network
// unless the request has another one. It decides whether the source addresses of a VF are checked.
func TestPortsInheritPortSecurity(t *testing.T) {
	f := start(t)
	n := f.create("admin", "/v2.0/networks", "network", `{"port_security_enabled": false}`)["id"].(string)
	for given, want := range map[string]bool{"": false, `, "port_security_enabled": true`: true} {
		p := f.create("admin", "/v2.0/ports", "port", `{"network_id": "`+n+`"`+given+`}`)
		if p["port_security_enabled"] != want {
			t.Errorf("%q: %v", given, p)
		}
	}
	f.fails(404, "NetworkNotFound", "admin", "POST", "/v2.0/ports", `{"port": {"network_id": "x"}}`)
}
