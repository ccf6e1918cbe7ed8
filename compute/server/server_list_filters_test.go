package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
)

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
		{"admin", "project_id=p2", nil},
		{"admin", "tenant_id=p2", nil},
		{"admin", "all_tenants=1&project_id=p2", []string{"web-9"}},
		{"admin", "all_tenants=1&tenant_id=p2", []string{"web-9"}},
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

// TestServerListFiltersOfRecords tests the filters of attributes that the database has no columns for, and who may use
// them.
func TestServerListFiltersOfRecords(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	ann := h.client("ann:p1")
	ids := map[string]string{}
	for i, name := range []string{"a", "b", "c"} {
		id := h.server(ann, name, "small")
		ids[name] = id
		if _, err := h.store.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
			s.Created = time.Date(2026, 1, 1+i, 12, 0, 0, 0, time.UTC)
			s.Updated, s.KeyName, s.Description = s.Created.Add(time.Hour), "key-"+name, "the "+name
			s.Image = strings.Repeat(name, 8) + "-0000-4000-8000-000000000000"
			return s
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.store.Change(t.Context(), ids["b"], func(s lifecycle.Server) lifecycle.Server {
		s.AccessIPv4, s.AccessIPv6, s.ConfigDrive, s.AutoDisk = "192.0.2.7", "2001:db8::7", true, true
		return s
	}); err != nil {
		t.Fatal(err)
	}
	h.assign(ids["b"], "host1")
	h.apply(ids["b"], lifecycle.GuestRunning{Host: "host1", Consumer: ids["b"]})
	for i, name := range []string{"a", "b", "c"} {
		if _, err := h.store.Change(t.Context(), ids[name], func(s lifecycle.Server) lifecycle.Server {
			s.Ports = []lifecycle.Port{{ID: name, FixedIPs: []lifecycle.FixedIP{{Address: fmt.Sprint("10.0.0.1", i)},
				{Address: fmt.Sprint("fd00::1", i)}}}}
			return s
		}); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"c", "b", "a"}
	for _, c := range []struct {
		version, token, query string
		want                  []string
	}{
		{"2.1", "ann:p1", "image=aaaaaaaa-0000-4000-8000-000000000000", []string{"a"}},
		{"2.1", "ann:p1", "image=aaaaaaaa-0000-4000-8000-00000000000", nil},
		{"2.1", "ann:p1", "ip=10.0.0.11", []string{"b"}},
		{"2.1", "ann:p1", "ip=^10.0.0", all},
		{"2.1", "ann:p1", "ip6=fd00::12", all},
		{"2.5", "ann:p1", "ip6=fd00::12", []string{"c"}},
		{"2.5", "ann:p1", "ip6=fd00::12&ip=10.0.0.10", []string{"c", "a"}},
		{"2.82", "ann:p1", "key_name=key-b", all},
		{"2.83", "ann:p1", "key_name=key-b", []string{"b"}},
		{"2.83", "ann:p1", "key_name=key-[ab]", []string{"b", "a"}},
		{"2.83", "ann:p1", "power_state=1", []string{"b"}},
		{"2.83", "ann:p1", "vm_state=building", []string{"c", "a"}},
		{"2.83", "ann:p1", "task_state=scheduling", []string{"c", "a"}},
		{"2.83", "ann:p1", "created_at=2026-01-02T12:00:00Z", []string{"b"}},
		{"2.83", "ann:p1", "launched_at=2026-01-02", nil},
		{"2.83", "ann:p1", "availability_zone=nova", []string{"b"}},
		{"2.83", "ann:p1", "availability_zone=other", nil},
		{"2.83", "ann:p1", "user_id=bob", nil},
		{"2.82", "ann:p1", "user_id=bob", all},
		{"2.1", "ann:p1", "host=nowhere&node=nowhere&uuid=x&unknown=1&_internal=1&metadata=1", all},
		{"2.90", "ann:p1", "hostname=^a$", []string{"a"}},
		{"2.65", "ann:p1", "changes-before=2026-01-02", all},
		{"2.66", "ann:p1", "changes-before=2026-01-02", []string{"a"}},
		{"2.73", "ann:p1", "locked=false", all},
		{"2.73", "ann:p1", "locked=true", nil},
		{"2.1", "ann:p1", "status=active&status=build", all},
		{"2.1", "ann:p1", "status=active&status=happy", []string{"b"}},
		{"2.1", "admin", "all_tenants=1&key_name=key-b", []string{"b"}},
		{"2.1", "admin", "all_tenants=1&uuid=" + ids["c"], []string{"c"}},
		{"2.1", "admin", "all_tenants=1&node=host1", []string{"b"}},
		{"2.1", "admin", "all_tenants=1&access_ip_v4=192.0.2", []string{"b"}},
		{"2.1", "admin", "all_tenants=1&access_ip_v6=^2001:db8::7$", []string{"b"}},
		{"2.1", "admin", "all_tenants=1&access_ip_v4=192.0.3", nil},
		{"2.1", "admin", "all_tenants=1&auto_disk_config=AUTO", []string{"b"}},
		{"2.1", "admin", "all_tenants=1&config_drive=True", []string{"b"}},
		{"2.83", "ann:p1", "config_drive=true", []string{"b"}},
		{"2.83", "ann:p1", "config_drive=False", []string{"c", "a"}},
		{"2.82", "ann:p1", "config_drive=true", all},
		{"2.83", "ann:p1", "access_ip_v4=192.0.3", all},
		{"2.1", "admin", "all_tenants=1&display_name=a|c", []string{"c", "a"}},
		{"2.1", "admin", "all_tenants=1&description=the a", []string{"a"}},
		{"2.1", "admin", "all_tenants=1&unknown=1", all},
		// orders
		{"2.1", "ann:p1", "sort_key=created_at&sort_dir=asc", []string{"a", "b", "c"}},
		{"2.1", "ann:p1", "sort_key=display_name&sort_dir=asc&limit=2", []string{"a", "b"}},
		{"2.1", "ann:p1", "sort_key=display_name", all},
		{"2.1", "ann:p1", "sort_key=display_name&sort_dir=asc&marker=" + ids["a"], []string{"b", "c"}},
		{"2.1", "ann:p1", "sort_key=power_state&sort_key=display_name&sort_dir=desc&sort_dir=asc", []string{"b", "a", "c"}},
		{"2.1", "ann:p1", "sort_key=vcpus&sort_key=display_name&sort_dir=desc&sort_dir=asc", []string{"a", "b", "c"}},
		{"2.1", "ann:p1", "sort_key=locked", all},
		{"2.1", "admin", "all_tenants=1&sort_key=host&sort_dir=asc", []string{"a", "c", "b"}},
	} {
		for _, path := range []string{"/v2.1/servers?", "/v2.1/servers/detail?"} {
			query := strings.NewReplacer("^", "%5E", "|", "%7C", "[", "%5B", "]", "%5D", " ", "%20").Replace(c.query)
			r := h.ask("GET", path+query, "", "X-Auth-Token", c.token, "OpenStack-API-Version", "compute "+c.version)
			list, _ := r.dig("servers").([]any)
			var names []string
			for _, s := range list {
				names = append(names, s.(map[string]any)["name"].(string))
			}
			if r.status != 200 || !slices.Equal(names, c.want) {
				t.Errorf("%s %s%s at %s: %v, want %v\n%.300s", c.token, path, c.query, c.version, names, c.want, r.text)
			}
		}
	}
	h.exchanges("ann:p1", []exchange{
		{"2.1", "GET", "/servers?sort_key=happiness", "", 400, "sort_key"},
		{"2.1", "GET", "/servers?sort_key=host", "", 403, "Only administrators can sort servers by host"},
		{"2.75", "GET", "/servers?sort_key=vcpus", "", 400, "sort_key"},
		{"2.1", "GET", "/servers?sort_key=uuid&sort_dir=up", "", 400, "sort direction"},
		{"2.1", "GET", "/servers?sort_key=uuid&sort_dir=asc&sort_dir=asc", "", 400, "exceeds"},
		{"2.1", "GET", "/servers?sort_key=uuid&marker=none", "", 400, "marker"},
		{"2.75", "GET", "/servers?unknown=1", "", 400, "Additional properties are not allowed ('unknown' was unexpected)"},
		{"2.72", "GET", "/servers?locked=maybe", "", 200, ""},
		{"2.73", "GET", "/servers?locked=maybe", "", 400, "locked"},
		{"2.66", "GET", "/servers?changes-since=2026-01-02&changes-before=2026-01-01", "", 400, "less than or equal"},
		{"2.1", "GET", "/servers?ip=%5B", "", 400, "regular expression"},
	})
	h.exchanges("admin", []exchange{
		{"2.1", "GET", "/servers?metadata=1", "", 400, "Invalid filter field: metadata"},
		{"2.75", "GET", "/servers?ip=%5B", "", 400, "regular expression"},
		{"2.75", "GET", "/servers?ip=" + strings.Repeat("x", 256), "", 400, "has 256 bytes, and may have 255"},
	})
}

// TestPagesInAnyOrder reads a sorted list in pages, of which the marker is deleted in between. Names are compared as
// texts, also those that are numbers.
func TestPagesInAnyOrder(t *testing.T) {
	h := start(t)
	ids := map[string]string{}
	for i, name := range []string{"9", "10", "b", "1a", "other"} {
		s := lifecycle.Server{ID: uuid.NewString(), Name: name, Project: "p1", User: "ann", State: lifecycle.Active,
			Host: "host1", Created: time.Unix(int64(i), 0).UTC()}
		if name == "other" {
			s.Project = "p2"
		}
		if err := h.store.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		ids[name] = s.ID
	}
	const path = "/v2.1/servers/detail?sort_key=display_name&sort_dir=asc&limit=1&marker="
	var names []string
	for marker := ""; len(names) < 9; {
		r := h.ask("GET", path+marker, "", "X-Auth-Token", "ann:p1")
		if r.status != 200 {
			t.Fatal(r.status, r.text)
		}
		name, _ := r.dig("servers/0/name").(string)
		if name == "" {
			break
		}
		names, marker = append(names, name), ids[name]
		if _, err := h.store.Change(t.Context(), marker, func(s lifecycle.Server) lifecycle.Server {
			s.State, s.Ended = lifecycle.Deleted, time.Now()
			return s
		}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"10", "1a", "9", "b"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	for _, marker := range []string{ids["other"], "none"} {
		if r := h.ask("GET", path+marker, "", "X-Auth-Token", "ann:p1"); r.status != 400 {
			t.Errorf("%s: %d %s", marker, r.status, r.text)
		}
	}
}
