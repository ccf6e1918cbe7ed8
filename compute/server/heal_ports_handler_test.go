package server

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
)

// TestPortsAreHealed sends a selection of servers; only administrators may.
func TestPortsAreHealed(t *testing.T) {
	h := start(t)
	admin := host.Client{REST: &rest.Client{Base: h.url, Headers: map[string]string{"X-Auth-Token": "admin"}}}
	const root = string(rootID)
	for _, apply := range []bool{false, true} {
		got, err := admin.HealPorts(t.Context(), host.HealPorts{Host: "cmp1", Servers: []string{"a", "b"}, Apply: apply})
		want := host.HealedPorts{Servers: []host.HealedServer{{Server: "s1", Name: "web", Host: "cmp1",
			State: map[bool]string{false: host.PortsNeedHealing, true: host.PortsHealed}[apply], Reason: "a b",
			Ports: []host.HealedPort{{Port: "p1", Device: "0000:81:00.1", Groups: map[string]string{"g1": root}}},
			Adds:  map[string]map[string]int{root: {"VCPU": 1}}, Removes: map[string]map[string]int{}}}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %v", got, err)
		}
	}
	if r := h.ask("POST", "/berth/v1/ports/heal", "{}"); r.status != 403 {
		t.Errorf("by a user: %d %s", r.status, r.text)
	}
}
