package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
)

// noServer is the UUID of no server.
const noServer = "00000000-0000-4000-8000-000000000009"

// withPorts makes a server active on host cmp1, with the port "plain", and the port "vf" that needs a device.
func (h *fixture) withPorts(id string) {
	h.Helper()
	h.assign(id, "cmp1")
	if err := h.guest("cmp1", id, host.Guest{Phase: host.Running}); err != nil {
		h.Fatal(err)
	}
	if _, err := h.store.Change(h.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s.Networks = []lifecycle.NetworkRequest{{Port: "plain"}, {Port: "vf"}}
		s.Ports = []lifecycle.Port{{ID: "plain", Host: "cmp1"}, {ID: "vf", Host: "cmp1"}}
		s.Requests = []pci.Request{{ID: "R", Count: 1, Port: &pci.PortNeeds{ID: "vf"}}}
		return s
	}); err != nil {
		h.Fatal(err)
	}
}

// Each event has its code, and the answer a status that sums them up. A deleted port begins to be detached.
func TestExternalEvents(t *testing.T) {
	h := start(t)
	h.flavor("f", nil)
	placed, building := h.server(h.admin, "placed", "f"), h.server(h.admin, "building", "f")
	h.withPorts(placed)
	for _, c := range []struct {
		name   string
		event  string // the events, SERVER is the id of the placed server
		status int
		code   float64 // of the last event
		part   string  // of the answer
	}{
		{"an event without work", `{"name":"network-vif-plugged","server_uuid":"SERVER","tag":"plain"}`, 200, 200,
			`"status":"completed"`},
		{"a status", `{"name":"network-vif-plugged","server_uuid":"SERVER","tag":"plain","status":"failed"}`, 200, 200,
			`"status":"failed"`},
		{"no tag", `{"name":"network-changed","server_uuid":"SERVER"}`, 200, 200, `"name":"network-changed"`},
		{"another port", `{"name":"network-vif-deleted","server_uuid":"SERVER","tag":"other"}`, 200, 200, `"tag":"other"`},
		{"a deletion without its port", `{"name":"network-vif-deleted","server_uuid":"SERVER"}`, 207, 400, `"failed"`},
		{"no server", `{"name":"network-changed","server_uuid":"` + noServer + `"}`, 207, 404, `"status":"failed"`},
		{"no host", `{"name":"network-changed","server_uuid":"` + building + `"}`, 207, 422, `"status":"failed"`},
		{"one of two has no server", `{"name":"network-changed","server_uuid":"SERVER"},
			{"name":"network-changed","server_uuid":"` + noServer + `"}`, 207, 404, `"status":"failed"`},
		{"one of two has no host", `{"name":"network-changed","server_uuid":"SERVER"},
			{"name":"network-changed","server_uuid":"` + building + `"}`, 207, 422, `"status":"failed"`},
		{"a deleted port", `{"name":"network-vif-deleted","server_uuid":"SERVER","tag":"vf"}`, 200, 200, `"completed"`},
		{"it is reported again", `{"name":"network-vif-deleted","server_uuid":"SERVER","tag":"vf"}`, 200, 200, ""},
		{"another one meanwhile", `{"name":"network-vif-deleted","server_uuid":"SERVER","tag":"plain"}`, 200, 200, ""},
	} {
		got := h.ask(http.MethodPost, "/v2.1/os-server-external-events",
			`{"events":[`+strings.ReplaceAll(c.event, "SERVER", placed)+`]}`, "X-Auth-Token", "admin")
		last, _ := got.dig("events/1/code").(float64)
		if last == 0 {
			last, _ = got.dig("events/0/code").(float64)
		}
		if got.status != c.status || last != c.code || !strings.Contains(got.text, c.part) {
			t.Errorf("%s: %d %s", c.name, got.status, got.text)
		}
	}
	s, err := h.store.Read(t.Context(), placed)
	if err != nil || s.PortChange == nil || s.PortChange.Detach != "vf" || len(s.Requests) != 0 || len(s.Ports) != 1 ||
		!slices.Equal(s.DeletedPorts, []string{"plain"}) {
		t.Errorf("%v, change %+v, requests %+v, ports %+v, deleted %q", err, s.PortChange, s.Requests, s.Ports,
			s.DeletedPorts)
	}
	h.apply(placed, lifecycle.PortDetached{ID: s.PortChange.ID})
	if s, err = h.store.Read(t.Context(), placed); err != nil || s.PortChange == nil || s.PortChange.Detach != "plain" {
		t.Errorf("%v, change %+v", err, s.PortChange)
	}
	if events, err := h.admin.ReportEvents(t.Context(), compute.ExternalEvent{Name: compute.PortDeleted, Server: placed,
		Tag: "plain"}); err != nil || len(events) != 1 || events[0].Code != http.StatusOK {
		t.Errorf("%+v %v", events, err)
	}
	if events, err := h.admin.ReportEvents(t.Context(), compute.ExternalEvent{Name: compute.PortDeleted,
		Server: noServer, Tag: "p"}); err != nil || len(events) != 1 || events[0].Code != http.StatusNotFound {
		t.Errorf("a server that does not exist: %+v %v", events, err)
	}
}

// The deletion of a port is accepted while its server has no host yet, and while a port is being attached. It is
// refused if the server has too many deletions.
func TestDeletionOfAPortOfAServerThatChanges(t *testing.T) {
	h := start(t)
	h.flavor("f", nil)
	placed, building := h.server(h.admin, "placed", "f"), h.server(h.admin, "building", "f")
	h.withPorts(placed)
	h.apply(placed, lifecycle.PortAttachRequested{ID: "w", Request: lifecycle.NetworkRequest{Network: "n"}})
	if _, err := h.store.Change(t.Context(), building, func(s lifecycle.Server) lifecycle.Server {
		s.Networks = []lifecycle.NetworkRequest{{Port: "new"}}
		return s
	}); err != nil {
		t.Fatal(err)
	}
	report := func(id, port string, want int) {
		t.Helper()
		events, err := h.admin.ReportEvents(t.Context(), compute.ExternalEvent{Name: compute.PortDeleted, Server: id,
			Tag: port})
		if err != nil || events[0].Code != want {
			t.Errorf("%+v %v", events, err)
		}
	}
	for _, id := range []string{placed, building} {
		report(id, "new", http.StatusOK)
		if s, err := h.store.Read(t.Context(), id); err != nil || !slices.Equal(s.DeletedPorts, []string{"new"}) {
			t.Errorf("%v %s: %q", err, s.State, s.DeletedPorts)
		}
	}
	for i := range lifecycle.MaxDeletedPorts - 1 {
		h.apply(placed, lifecycle.PortDeleted{Port: strconv.Itoa(i)})
	}
	report(placed, "plain", http.StatusConflict)
}

// A body that is not valid, and a caller without the role, are refused.
func TestRefusedExternalEvents(t *testing.T) {
	h := start(t)
	event := func(keys string) string { return `{"events":[{"server_uuid":"` + noServer + `",` + keys + `}]}` }
	for body, want := range map[string]string{
		`{}`: "events", `{"events":[]}`: "0 elements", `{"events":{}}`: "a list of events", `[]`: "body",
		`{"events":[{"name":"network-changed"}]}`:                   "server_uuid",
		`{"events":[{"name":"network-changed","server_uuid":"x"}]}`: "give a UUID",
		event(`"name":"volume-extended","tag":"v"`):                 "give one of",
		event(`"tag":"p"`): "name",
		event(`"name":"network-changed","status":"done"`):                      "status",
		event(`"name":"network-changed","tag":5`):                              "tag",
		event(`"name":"network-changed","extra":1`):                            "extra",
		strings.TrimSuffix(event(`"name":"network-changed"`), "}") + `,"x":1}`: "x",
	} {
		got := h.ask(http.MethodPost, "/v2.1/os-server-external-events", body, "X-Auth-Token", "admin")
		if got.status != http.StatusBadRequest || !strings.Contains(got.text, want) {
			t.Errorf("%s: %d %s", body, got.status, got.text)
		}
	}
	for role, want := range map[string]int{"member": http.StatusForbidden, "service": http.StatusMultiStatus} {
		got := h.ask(http.MethodPost, "/v2.1/os-server-external-events", event(`"name":"network-changed"`),
			"X-Auth-Token", "neutron:services", "X-Roles", role)
		if got.status != want {
			t.Errorf("%s: %d %s", role, got.status, got.text)
		}
	}
}
