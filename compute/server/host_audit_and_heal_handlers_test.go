package server

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/condition"
)

// TestHostAllocationsAreComparedAndHealed compares a host with Placement and heals it; only administrators may.
func TestHostAllocationsAreComparedAndHealed(t *testing.T) {
	h, ctx := start(t), t.Context()
	admin := host.Client{REST: &rest.Client{Base: h.url, Headers: map[string]string{"X-Auth-Token": "admin"}}}
	const root = string(rootID)
	want := host.Allocations{Host: "audited", Conditions: foundByAudit(),
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
	r.Conditions = []condition.Condition{condition.New(condition.Sync, "", "of the agent")}
	for _, one := range []host.Report{r, report("host2")} {
		if err := h.hosts.PutReport(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	list, err := h.hosts.Hosts(t.Context())
	if err != nil || len(list) != 2 ||
		strings.Join(condition.Texts(list[0].Conditions), "; ") != "of the agent; found by an audit" {
		t.Errorf("%+v %v", list, err)
	}
}

// TestConditionsNameServers checks that a condition of a server has its name.
func TestConditionsNameServers(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	id := h.server(h.admin, "web", "small")
	r := report("host1")
	unknown := "11111111-2222-4333-8444-555555555555"
	r.Conditions = []condition.Condition{condition.New(condition.ServerFailed, id, "a"),
		condition.New(condition.UnassignedGuest, unknown, "b"), condition.New(condition.Clean, "0000:01:00.0", "c")}
	if err := h.hosts.PutReport(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the list of the store is shared
		got, err := h.hosts.HostReport(t.Context(), "host1")
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"web", "", ""} {
			if c := got.Conditions[i]; c.Server != name {
				t.Errorf("%+v, want the name %q", c, name)
			}
		}
	}
	stored, err := h.store.Host(t.Context(), "host1")
	if err != nil || stored.Conditions[0].Server != "" {
		t.Errorf("the stored condition is %+v %v", stored.Conditions, err)
	}
}
