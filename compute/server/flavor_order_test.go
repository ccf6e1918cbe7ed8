package server

import (
	"strings"
	"testing"
)

// TestFlavorOrder sorts flavors by each key, and reads such a list in pages.
func TestFlavorOrder(t *testing.T) {
	h := start(t)
	for _, f := range []string{`"id": "1", "name": "c", "ram": 64, "vcpus": 2, "disk": 1`,
		`"id": "2", "name": "a", "ram": 64, "vcpus": 1, "disk": 3, "swap": 5`,
		`"id": "3", "name": "b", "ram": 32, "vcpus": 4, "disk": 2, "rxtx_factor": 0.5`} {
		if r := h.at("2.1", "POST", "/v2.1/flavors", `{"flavor": {`+f+`}}`); r.status != 200 {
			t.Fatal(r.status, r.text)
		}
	}
	list := func(query string) (ids string) {
		r := h.at("2.1", "GET", "/v2.1/flavors"+query, "")
		all, _ := r.dig("flavors").([]any)
		for _, f := range all {
			ids += f.(map[string]any)["id"].(string)
		}
		if r.status != 200 {
			t.Errorf("%s: %d %s", query, r.status, r.text)
		}
		return ids
	}
	for query, want := range map[string]string{"": "123", "?sort_dir=desc": "321", "?sort_key=name": "231",
		"?sort_key=id&sort_dir=desc": "321", "?sort_key=memory_mb&sort_key=vcpus": "321",
		"?sort_key=memory_mb&sort_dir=asc&sort_key=flavorid&sort_dir=desc": "321", "?sort_key=root_gb": "132",
		"?sort_key=swap&sort_dir=desc": "231", "?sort_key=rxtx_factor": "312", "?sort_key=vcpu_weight": "123",
		"?sort_key=name&limit=2": "23", "?sort_key=name&limit=2&marker=3": "1", "?sort_key=name&marker=1": "",
		"?sort_key=is_public": "123", "?sort_key=disabled": "123", "?sort_key=ephemeral_gb": "123",
		"?sort_key=description": "123"} {
		if got := list(query); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"?sort_key=colour", "?sort_key=name&sort_dir=up", "?sort_key=created_at",
		"?sort_key=name&marker=9", "?sort_key=name&sort_dir=asc&sort_dir=asc"} {
		if r := h.at("2.1", "GET", "/v2.1/flavors"+query, ""); r.status != 400 {
			t.Errorf("%s: %d %s", query, r.status, r.text)
		}
	}
	r := h.at("2.1", "GET", "/v2.1/flavors?sort_key=name&limit=2", "")
	if next, _ := r.dig("flavors_links/0/href").(string); !strings.Contains(next, "marker=3") {
		t.Errorf("the next page is %s", next)
	}
}
