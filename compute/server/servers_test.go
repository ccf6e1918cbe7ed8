package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestServerFieldsByVersion(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	made := h.at("2.1", "POST", "/v2.1/servers",
		`{"server": {"name": "My Server!", "flavorRef": "`+h.url+`/flavors/small", "imageRef": "`+imageID+
			`", "networks": [], "key_name": null}}`)
	id, _ := made.dig("server/id").(string)
	if made.status != 202 || id == "" {
		t.Fatalf("%d %s", made.status, made.text)
	}
	h.assign(id, "host1")
	plain := []string{"id", "name", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created",
		"updated", "addresses",
		"accessIPv4", "accessIPv6", "links", "progress", "OS-DCF:diskConfig", "OS-EXT-AZ:availability_zone", "key_name",
		"config_drive",
		"OS-EXT-STS:vm_state", "OS-EXT-STS:task_state", "OS-EXT-STS:power_state", "OS-SRV-USG:launched_at",
		"OS-SRV-USG:terminated_at",
		"os-extended-volumes:volumes_attached"}
	place := []string{"OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:hypervisor_hostname", "OS-EXT-SRV-ATTR:instance_name"}
	extended := []string{"OS-EXT-SRV-ATTR:reservation_id", "OS-EXT-SRV-ATTR:launch_index", "OS-EXT-SRV-ATTR:hostname",
		"OS-EXT-SRV-ATTR:kernel_id",
		"OS-EXT-SRV-ATTR:ramdisk_id", "OS-EXT-SRV-ATTR:root_device_name", "OS-EXT-SRV-ATTR:user_data"}
	for _, c := range []struct {
		version, token string
		more           []string
	}{
		{"2.1", "ann:admin", nil},
		{"2.61", "ann:admin", []string{"locked", "description", "tags"}},
		{"2.1", "admin", place},
		{"2.2", "admin", place},
		{"2.3", "admin", slices.Concat(place, extended)},
		{"2.9", "admin", slices.Concat(place, extended, []string{"locked"})},
		{"2.16", "admin", slices.Concat(place, extended, []string{"locked", "host_status"})},
		{"2.19", "admin", slices.Concat(place, extended, []string{"locked", "host_status", "description"})},
		{"2.26", "admin", slices.Concat(place, extended, []string{"locked", "host_status", "description", "tags"})},
	} {
		want := slices.Sorted(slices.Values(slices.Concat(plain, c.more)))
		one := h.ask("GET", "/v2.1/servers/"+id, "", "X-Auth-Token", c.token, "OpenStack-API-Version", "compute "+c.version)
		all := h.ask("GET", "/v2.1/servers/detail", "", "X-Auth-Token", c.token, "OpenStack-API-Version",
			"compute "+c.version)
		for _, v := range []any{one.dig("server"), all.dig("servers/0")} {
			got, _ := v.(map[string]any)
			if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
				t.Errorf("%s as %s:\n got %v\nwant %v", c.version, c.token, keys, want)
			}
		}
	}
	old, now := h.at("2.46", "GET", "/v2.1/servers/"+id, ""), h.at("2.47", "GET", "/v2.1/servers/"+id, "")
	if got := fmt.Sprint(old.dig("server/flavor")); got != fmt.Sprintf("map[id:small links:[map[href:%s/flavors/small "+
		"rel:bookmark]]]", h.url) {
		t.Error(got)
	}
	if got := fmt.Sprint(now.dig("server/flavor")); got != "map[disk:3 ephemeral:0 extra_specs:map[] "+
		"original_name:small ram:512 swap:0 vcpus:2]" {
		t.Error(got)
	}
	if now.dig("server/OS-EXT-SRV-ATTR:hostname") != "my-server" || now.dig("server/image/id") != imageID ||
		now.dig("server/OS-EXT-STS:task_state") != "spawning" || now.dig("server/addresses") == nil {
		t.Error(now.text)
	}
	if list := h.at("2.61", "GET", "/v2.1/servers", ""); len(list.dig("servers/0").(map[string]any)) != 3 {
		t.Error(list.text)
	}
}

func TestFaultOfServerIsShown(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	if r := h.ask("GET", "/v2.1/servers/"+id, ""); r.dig("server/fault") != nil {
		t.Error(r.text)
	}
	h.prepare(id)
	h.apply(id, lifecycle.NoValidHost{Candidates: 2, Reason: "2 hosts: no free gpu"})
	r := h.ask("GET", "/v2.1/servers/"+id, "")
	message, _ := r.dig("server/fault/message").(string)
	if r.dig("server/status") != "ERROR" || r.dig("server/fault/code") != 500.0 || !strings.Contains(message,
		"no free gpu") {
		t.Error(r.text)
	}
	if _, err := time.Parse("2006-01-02T15:04:05Z", fmt.Sprint(r.dig("server/fault/created"))); err != nil {
		t.Error(err)
	}
	if r.dig("server/image") != "" || r.dig("server/progress") != nil {
		t.Error(r.text)
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

func TestServerListFilters(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	h.flavor("large", nil)
	ann, bob := h.client("ann:p1"), h.client("bob:p2")
	h.assign(h.server(ann, "web-1", "small"), "host1")
	h.assign(h.server(ann, "web-2", "small"), "host2")
	h.server(ann, "db.1", "large")
	failed := h.server(bob, "web-9", "small")
	h.prepare(failed)
	h.apply(failed, lifecycle.NoValidHost{Reason: "nothing"})
	h.apply(h.server(ann, "gone", "small"), lifecycle.DeleteRequested{})
	future := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		token, query string
		want         []string // newest first
	}{
		{"ann:p1", "", []string{"db.1", "web-2", "web-1"}},
		{"admin", "", nil},
		{"admin", "all_tenants=1", []string{"web-9", "db.1", "web-2", "web-1"}},
		{"admin", "all_tenants", []string{"web-9", "db.1", "web-2", "web-1"}},
		{"admin", "all_tenants=False", nil},
		{"admin", "project_id=p2", []string{"web-9"}},
		{"admin", "all_tenants=1&name=web", []string{"web-9", "web-2", "web-1"}},
		{"admin", "all_tenants=1&name=^web-[12]$", []string{"web-2", "web-1"}},
		{"admin", "all_tenants=1&name=^db.1$", []string{"db.1"}},
		{"admin", "all_tenants=1&name=(?i)WEB-1", []string{"web-1"}},
		{"admin", "all_tenants=1&name=web-1|db", []string{"db.1", "web-1"}},
		{"admin", "all_tenants=1&status=error", []string{"web-9"}},
		{"admin", "all_tenants=1&status=SHUTOFF", nil},
		{"ann:p1", "status=happy", nil},
		{"admin", "all_tenants=1&host=host2", []string{"web-2"}},
		{"admin", "all_tenants=1&flavor=large", []string{"db.1"}},
		{"admin", "all_tenants=1&user_id=bob", []string{"web-9"}},
		{"admin", "all_tenants=1&deleted=True", []string{"gone"}},
		{"admin", "all_tenants=1&status=DELETED", []string{"gone"}},
		{"ann:p1", "changes-since=2020-01-01T00:00:00Z", []string{"gone", "db.1", "web-2", "web-1"}},
		{"ann:p1", "changes-since=" + future, nil},
		{"ann:p1", "sort_key=created_at&sort_dir=desc&limit=1", []string{"db.1"}},
		{"ann:p1", "limit=0", nil},
	} {
		for _, path := range []string{"/v2.1/servers?", "/v2.1/servers/detail?"} {
			r := h.ask("GET", path+strings.NewReplacer("^", "%5E", "|", "%7C", "+", "%2B").Replace(c.query), "", "X-Auth-Token",
				c.token)
			list, _ := r.dig("servers").([]any)
			var names []string
			for _, s := range list {
				names = append(names, s.(map[string]any)["name"].(string))
			}
			if r.status != 200 || !slices.Equal(names, c.want) || r.dig("servers") == nil {
				t.Errorf("%s %s%s: %v, want %v\n%s", c.token, path, c.query, names, c.want, r.text)
			}
		}
	}
}

func TestServerListPages(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	if _, err := h.admin.CreateServer(t.Context(), compute.CreateServer{Name: "s", Flavor: "small", MinCount: 7,
		MaxCount: 7}); err != nil {
		t.Fatal(err)
	}
	var names []string
	next := "/v2.1/servers?limit=3&name=s-"
	for next != "" {
		r := h.at("2.1", "GET", next, "")
		var page struct {
			Servers []compute.Ref
			Links   []compute.Link `json:"servers_links"`
		}
		if err := json.Unmarshal([]byte(r.text), &page); err != nil || r.status != 200 {
			t.Fatalf("%v in %s", err, r.text)
		}
		for _, s := range page.Servers {
			names = append(names, s.Name)
		}
		if len(names) > 7 {
			t.Fatal("the pages do not end")
		}
		next = ""
		if len(page.Links) > 0 {
			next = strings.TrimPrefix(page.Links[0].HRef, h.url)
		}
	}
	if want := []string{"s-7", "s-6", "s-5", "s-4", "s-3", "s-2", "s-1"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

func TestServersOfOneRequestShareReservation(t *testing.T) {
	h, ctx := start(t), t.Context()
	h.flavor("gpu", map[string]string{"pci_passthrough:alias": "gpu:2"})
	h.server(h.admin, "s-9", "gpu")
	made, err := h.admin.CreateServer(ctx, compute.CreateServer{Name: "s", Flavor: "gpu", MinCount: 1, MaxCount: 3,
		Reservation: true})
	if err != nil || !strings.HasPrefix(made.Reservation, "r-") {
		t.Fatalf("%+v %v", made, err)
	}
	list, err := h.admin.Servers(ctx, compute.ListServers{Reservation: made.Reservation})
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v %v", list, err)
	}
	requests := map[string]bool{}
	for i, s := range list {
		if want := fmt.Sprintf("s-%d", 3-i); s.Name != want || s.Extended.LaunchIndex != 2-i ||
			s.Extended.Reservation != made.Reservation {
			t.Errorf("%s, %+v", s.Name, s.Extended)
		}
		h.prepare(s.ID)
		why, err := h.admin.Why(ctx, s.ID)
		if err != nil || len(why.Requests) != 1 || len(why.Groups) != 3 {
			t.Fatalf("%+v %v", why, err)
		}
		requests[why.Requests[0].ID] = true
	}
	if len(requests) != 3 {
		t.Errorf("servers share request ids: %v", requests)
	}
}

func TestFailedRequestForSeveralServersCreatesNone(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	h.conductor.room, h.conductor.fails = 2, fault.New(fault.Unavailable, "x", "the disk is full")
	r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "s", "flavorRef": "small", "max_count": 3}}`)
	if r.status != 503 {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if list, err := h.store.Servers(t.Context(), allServers()); err != nil || len(list) != 0 {
		t.Errorf("%d servers were created (%v)", len(list), err)
	}
}

func TestServerIDContainsReservationAndIndex(t *testing.T) {
	reservation := randomBytes()
	seen := map[string]bool{}
	var first string
	for _, i := range []int{0, 1, 255, 256, maxServers - 1} {
		id := serverID(reservation, i)
		got, index := reservationOf(id)
		if i == 0 {
			first = got
		}
		if seen[id] || index != i || got != first || id[14] != '8' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Errorf("%d: %s, %s %d", i, id, got, index)
		}
		seen[id] = true
	}
	if got, index := reservationOf("not-a-uuid"); got != "" || index != 0 {
		t.Errorf("%s %d", got, index)
	}
}

func TestLiteralOfNamePattern(t *testing.T) {
	for pattern, want := range map[string]string{"web": "web", "^web-1$": "web-1", `web\.example`: "web.example",
		"(abc)+de": "abc", "a|b": "",
		"(?i)abc": "", "x?abc*": "ab", ".*": "", "web-[12]-long": "-long"} {
		re, err := nameFilter(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := literal(re); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}

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
