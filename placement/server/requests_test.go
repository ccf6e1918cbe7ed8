package server

import (
	"fmt"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/placement"
)

func TestBodyLimit(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MaxBody = 100 })
	if resp := w.ask("1.39", "POST", "/resource_providers",
		`{"name":"`+strings.Repeat("n", 100)+`"}`); resp.StatusCode != 413 {
		t.Errorf("%d %s", resp.StatusCode, bodyOf(t, resp))
	}
}

func TestGroupLimit(t *testing.T) {
	w := newWorld(t)
	query := "group_policy=none"
	for i := range api.MaxGroups + 1 {
		query += fmt.Sprintf("&resources%d=VCPU:1", i+1)
	}
	if resp := w.ask("1.39", "GET", "/allocation_candidates?"+query, ""); resp.StatusCode != 400 ||
		!strings.Contains(bodyOf(t, resp), "too many") {
		t.Errorf("%d", resp.StatusCode)
	}
}
