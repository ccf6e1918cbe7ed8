package ports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
)

// TestNamesOfPorts: a port gets the name of its server if it has none and the network service has names, and loses it
// when it is returned to its user.
func TestNamesOfPorts(t *testing.T) {
	text := func(s string) *string { return &s }
	s := lifecycle.Server{ID: "5f3c", Name: "Web_1.Example"}
	for what, c := range map[string]struct {
		has        *string
		set, reset string
	}{
		"no extension": {nil, "map[]", "map[device_id: device_owner:]"},
		"no name":      {text(""), "map[dns_name:web-1]", "map[device_id: device_owner:]"},
		"its name":     {text("web-1"), "map[]", "map[device_id: device_owner: dns_name:]"},
		"of the user":  {text("db"), "map[]", "map[device_id: device_owner:]"},
	} {
		p := network.Port{DNSName: c.has}
		if got := fmt.Sprint(withDNSName(s, p, map[string]any{})); got != c.set {
			t.Errorf("%s: %s, want %s", what, got, c.set)
		}
		if got := fmt.Sprint(returned(s, p)); got != c.reset {
			t.Errorf("%s: returned with %s, want %s", what, got, c.reset)
		}
	}
	for name, want := range map[string]string{"***": "server-5f3c", strings.Repeat("a", 80): strings.Repeat("a", 63),
		"-web-.x": "web"} {
		if got := (lifecycle.Server{ID: "5f3c", Name: name}).DNSName(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
