package ports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
)

// TestNamesOfPorts: a port gets the name of its server if it has none and the network service has names, and loses it
// when it is returned to its user, also if the server was renamed. A name of the user stays.
func TestNamesOfPorts(t *testing.T) {
	text := func(s string) *string { return &s }
	given := []lifecycle.Port{{ID: "p", DNSName: "web-1"}}
	for what, c := range map[string]struct {
		ports      []lifecycle.Port
		name       string // of the server
		has        *string
		owner      string
		set, reset string
	}{
		"no extension": {nil, "Web_1.Example", nil, "", "map[]", "map[device_id: device_owner:]"},
		"no name":      {nil, "Web_1.Example", text(""), "", "map[dns_name:web-1]", "map[device_id: device_owner:]"},
		"its name": {given, "Web_1.Example", text("web-1"), "compute:nova", "map[]",
			"map[device_id: device_owner: dns_name:]"},
		"after a rename":  {given, "db", text("web-1"), "compute:nova", "map[]", "map[device_id: device_owner: dns_name:]"},
		"named meanwhile": {given, "db", text("mail"), "compute:nova", "map[]", "map[device_id: device_owner:]"},
		"of the user":     {nil, "Web_1.Example", text("db"), "", "map[]", "map[device_id: device_owner:]"},
		"the same, of the user": {[]lifecycle.Port{{ID: "p"}}, "Web_1.Example", text("web-1"), "compute:nova", "map[]",
			"map[device_id: device_owner:]"},
		"the same, of the user, not bound": {nil, "Web_1.Example", text("web-1"), "", "map[]",
			"map[device_id: device_owner:]"},
		"an interrupted attachment": {nil, "Web_1.Example", text("web-1"), "compute:nova", "map[]",
			"map[device_id: device_owner: dns_name:]"},
	} {
		s := lifecycle.Server{ID: "5f3c", Name: c.name, Ports: c.ports}
		p := network.Port{ID: "p", DNSName: c.has, DeviceOwner: c.owner}
		if got := fmt.Sprint(withDNSName(s, p, map[string]any{})); got != c.set {
			t.Errorf("%s: %s, want %s", what, got, c.set)
		}
		if got := fmt.Sprint(returned(s, p)); got != c.reset {
			t.Errorf("%s: returned with %s, want %s", what, got, c.reset)
		}
	}
	detached := lifecycle.Server{Name: "db", PortChange: &lifecycle.PortChange{Port: &given[0]}}
	if got := returned(detached, network.Port{ID: "p", DNSName: text("web-1")}); got[dnsName] != "" {
		t.Errorf("a port that is detached after a rename keeps its name: %v", got)
	}
	for name, want := range map[string]string{"***": "server-5f3c", strings.Repeat("a", 80): strings.Repeat("a", 63),
		"-web-.x": "web"} {
		if got := (lifecycle.Server{ID: "5f3c", Name: name}).DNSName(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
