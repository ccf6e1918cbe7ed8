package server

import (
	"maps"
	"slices"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// allServers returns a filter that matches every server.
func allServers() store.ServerFilter { return store.ServerFilter{} }

func TestServerIsCreatedAndDeleted(t *testing.T) {
	h, ctx := start(t), t.Context()
	h.flavor("gpu", map[string]string{"pci_passthrough:alias": "gpu:1"})
	made, err := h.admin.CreateServer(ctx, compute.CreateServer{Name: "s", Flavor: "gpu", Image: imageID,
		Description: "mine", Tags: []string{"b", "a"},
		Metadata: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.admin.Server(ctx, "s")
	if err != nil || s.ID != made.ID || s.Status != "BUILD" || s.VMState != "building" || *s.TaskState != "scheduling" ||
		s.Place.Host != nil ||
		s.HostID != "" || s.Zone != "" || *s.HostStatus != "" || s.PowerState != 0 || *s.Description != "mine" ||
		!slices.Equal(s.Tags, []string{"a", "b"}) ||
		!maps.Equal(s.Metadata, map[string]string{"k": "v"}) || s.ProjectID != "admin" || s.UserID != "admin" ||
		s.LaunchedAt != nil {
		t.Fatalf("%+v %v", s, err)
	}
	h.assign(s.ID, "host1")
	record, err := h.store.Read(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	request := record.Requests[0].ID
	h.apply(s.ID, lifecycle.GuestRunning{Host: "host1",
		Devices: []schedule.Picked{{RequestID: request, Address: "0000:3b:00.0", Provider: deviceID}}})
	s, err = h.admin.Server(ctx, s.ID)
	if err != nil || s.Status != "ACTIVE" || s.TaskState != nil || *s.Place.Host != "host1" || s.Zone != "nova" ||
		*s.HostStatus != "UNKNOWN" ||
		s.PowerState != 1 || len(s.HostID) != 56 || s.LaunchedAt == nil || s.Flavor.Name != "gpu" ||
		s.Flavor.ExtraSpecs["pci_passthrough:alias"] != "gpu:1" {
		t.Fatalf("%+v %v", s, err)
	}
	if err := h.admin.DeleteServer(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if s, err = h.admin.Server(ctx, s.ID); err != nil || *s.TaskState != "deleting" {
		t.Fatalf("%+v %v", s, err)
	}
	if err := h.admin.DeleteServer(ctx, s.ID); err != nil {
		t.Errorf("a second request during the deletion: %v", err)
	}
	h.apply(s.ID, lifecycle.GuestGone{Host: "host1"})
	h.apply(s.ID, lifecycle.Released{})
	if _, err = h.admin.Server(ctx, s.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("after the deletion: %v", err)
	}
	if err := h.admin.DeleteServer(ctx, s.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleting a deleted server: %v", err)
	}
	if list, err := h.admin.Servers(ctx, compute.ListServers{Deleted: true}); err != nil || len(list) != 1 ||
		list[0].Status != "DELETED" || list[0].TerminatedAt == nil {
		t.Errorf("%+v %v", list, err)
	}
	if why, err := h.admin.Why(ctx, s.ID); err != nil || why.Status != "DELETED" || len(why.History) < 5 {
		t.Errorf("%+v %v", why, err)
	}
}

func TestServersOfOtherProjectsAreHidden(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	mine, theirs := h.server(h.client("ann:p1"), "mine", "small"), h.server(h.client("bob:p2"), "theirs", "small")
	for _, method := range []string{"GET", "DELETE"} {
		if r := h.ask(method, "/v2.1/servers/"+theirs, ""); r.status != 404 {
			t.Errorf("%s: %d %s", method, r.status, r.text)
		}
	}
	if r := h.ask("GET", "/berth/v1/servers/"+theirs+"/why", ""); r.status != 404 {
		t.Errorf("why: %d %s", r.status, r.text)
	}
	// project_id, host and deleted are ignored for users, as in OpenStack.
	for _, query := range []string{"", "project_id=p2", "tenant_id=p2", "host=h", "deleted=true"} {
		r := h.ask("GET", "/v2.1/servers?"+query, "")
		if list, _ := r.dig("servers").([]any); len(list) != 1 || r.dig("servers/0/id") != mine {
			t.Errorf("%s: %s", query, r.text)
		}
	}
	if s, err := h.client("ann:p1").Server(t.Context(), "mine"); err != nil || s.ID != mine || s.Place != nil ||
		s.HostStatus != nil {
		t.Errorf("%+v %v", s, err)
	}
	if s, err := h.admin.Server(t.Context(), "theirs"); err != nil || s.ID != theirs {
		t.Errorf("%+v %v", s, err)
	}
	odd := h.server(h.client("ann:p1"), "detail", "small")
	if s, err := h.client("ann:p1").Server(t.Context(), "detail"); err != nil || s.ID != odd {
		t.Errorf("%+v %v", s, err)
	}
	if r := h.ask("DELETE", "/v2.1/servers/"+mine, ""); r.status != 204 || r.text != "" {
		t.Errorf("%d %s", r.status, r.text)
	}
}
