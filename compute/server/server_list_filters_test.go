package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

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
