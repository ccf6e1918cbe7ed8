package server

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
)

func TestWhyExplainsPlacement(t *testing.T) {
	h, ctx := start(t), t.Context()
	h.flavor("gpu", map[string]string{"pci_passthrough:alias": "gpu:1", "trait:CUSTOM_FAST": "required"})
	id := h.server(h.client("ann:p1"), "s", "gpu")
	h.assign(id, "host1")
	record, err := h.store.Read(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	request := record.Requests[0].ID
	h.apply(id, lifecycle.GuestRunning{Host: "host1",
		Devices: []schedule.Picked{{RequestID: request, Address: "0000:3b:00.0", Provider: deviceID}}})
	why, err := h.admin.Why(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	class := "CUSTOM_PCI_10DE_1DB4"
	if want := []compute.WhyGroup{
		{Suffix: "", Resources: map[string]int{"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 3}, Required: []string{"CUSTOM_FAST"},
			Forbidden: []string{}},
		{Suffix: request + "-0", Resources: map[string]int{class: 1}, Required: []string{}, Forbidden: []string{}},
	}; !reflect.DeepEqual(why.Groups, want) {
		t.Errorf("groups %+v, want %+v", why.Groups, want)
	}
	if want := []compute.WhyRequest{{ID: request, Alias: "gpu", Count: 1, Policy: "legacy",
		Providers: []string{string(deviceID)}}}; !reflect.DeepEqual(why.Requests, want) {
		t.Errorf("requests %+v, want %+v", why.Requests, want)
	}
	if want := []compute.WhyDevice{{RequestID: request, Address: "0000:3b:00.0",
		Provider: string(deviceID)}}; !reflect.DeepEqual(why.Devices, want) {
		t.Errorf("devices %+v, want %+v", why.Devices, want)
	}
	if c := why.Choice; c == nil || c.Host != "host1" || c.Allocation[string(deviceID)][class] != 1 ||
		!slices.Equal(c.Mappings[request+"-0"], []string{string(deviceID)}) {
		t.Errorf("choice %+v", c)
	}
	if why.Status != "ACTIVE" || why.State != "active" || why.Rounds != 1 || why.Tries != 1 || why.Flavor != "gpu" ||
		!strings.Contains(why.Query, "resources=") {
		t.Errorf("%+v", why)
	}
	var history []string
	for _, m := range why.History {
		history = append(history, m.Text)
	}
	for _, part := range []string{"asks for", "2 candidates", "too small", "claimed on host1", "0000:3b:00.0"} {
		if !strings.Contains(strings.Join(history, "\n"), part) {
			t.Errorf("the history lacks %q:\n%s", part, strings.Join(history, "\n"))
		}
	}
	r := h.ask("GET", "/berth/v1/servers/"+id+"/why", "")
	if r.status != 200 || r.dig("why/fault") != nil || r.dig("why/pci_requests/0/alias") != "gpu" ||
		len(r.dig("why/request_groups").([]any)) != 2 {
		t.Errorf("%d %s", r.status, r.text)
	}
	for _, secret := range []string{"host1", string(rootID), string(deviceID), "3b:00.0"} {
		if strings.Contains(r.text, secret) {
			t.Errorf("a user sees %s: %s", secret, r.text)
		}
	}
}

// Before the conductor has built the request to Placement, a server is in BUILD and its explanation has no groups.
func TestWhyBeforeTheRequestIsBuilt(t *testing.T) {
	h := start(t)
	h.flavor("gpu", map[string]string{"pci_passthrough:alias": "gpu:1"})
	id := h.server(h.admin, "s", "gpu")
	if got := h.status(id); got != "BUILD building scheduling" {
		t.Error(got)
	}
	why, err := h.admin.Why(t.Context(), id)
	if err != nil || why.State != "preparing" || len(why.Groups)+len(why.Requests)+len(why.History) > 0 ||
		why.Query != "" {
		t.Errorf("%+v %v", why, err)
	}
	h.prepare(id)
	if why, err = h.admin.Why(t.Context(), id); err != nil || len(why.Groups) != 2 || len(why.Requests) != 1 {
		t.Errorf("%+v %v", why, err)
	}
}
