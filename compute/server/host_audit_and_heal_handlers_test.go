package server

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
)

// TestHostAllocationsAreComparedAndHealed compares a host with Placement and heals it; only administrators may.
func TestHostAllocationsAreComparedAndHealed(t *testing.T) {
	h, ctx := start(t), t.Context()
	admin := host.Client{REST: &rest.Client{Base: h.url, Headers: map[string]string{"X-Auth-Token": "admin"}}}
	const root = string(rootID)
	want := host.Allocations{Host: "audited", Conditions: []string{"found by an audit"},
		Missing: []host.Missing{{Server: "s1", Name: "web", Consumer: "s1",
			Lacks: map[string]map[string]int{root: {"VCPU": 2}}}},
		Foreign: []host.Foreign{{Consumer: "x", Holds: map[string]map[string]int{root: {"VCPU": 1}}, Why: "unknown"}}}
	if got, err := admin.Allocations(ctx, "audited"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for _, over := range []bool{false, true} {
		want.Missing[0].Outcome, want.Missing[0].Healed = fmt.Sprint("oversubscribe ", over), true
		got, err := admin.Heal(ctx, "audited", host.Heal{Oversubscribe: over})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %v", got, err)
		}
	}
	for _, method := range []string{"GET", "POST"} {
		if r := h.ask(method, "/berth/v1/hosts/audited/allocations", "{}"); r.status != 403 {
			t.Errorf("%s by a user: %d %s", method, r.status, r.text)
		}
	}
}

// TestHostShowsConditionsOfAudit checks that the conditions of an audit follow those of the host's agent.
func TestHostShowsConditionsOfAudit(t *testing.T) {
	h := start(t)
	r := report("audited")
	r.Conditions = []string{"of the agent"}
	for _, one := range []host.Report{r, report("host2")} {
		if err := h.hosts.PutReport(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	list, err := h.hosts.Hosts(t.Context())
	if err != nil || len(list) != 2 || strings.Join(list[0].Conditions, "; ") != "of the agent; found by an audit" {
		t.Errorf("%+v %v", list, err)
	}
}
