package server

import (
	"fmt"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/placement"
)

// A query is parsed as in the original: a % that does not begin an escaped byte is kept, and a semicolon is a
// separator.
func TestParseQuery(t *testing.T) {
	for raw, want := range map[string]string{
		"":                     "map[]",
		"a=1&b=2&a=3":          "map[a:[1 3] b:[2]]",
		"a&&b=":                "map[a:[] b:[]]",
		"a=%41%zz%4%":          "map[a:[A%zz%4%]]",
		"a=x+y%2B%zz+%C3%BC":   "map[a:[x y+%zz ü]]",
		"a=1;b=2":              "map[a:[1] b:[2]]",
		"%61%q=b=c":            "map[a%q:[b=c]]",
		"a=%%41":               "map[a:[%A]]",
		"=1":                   "map[:[1]]",
		"required=!A&in:x=%2C": "map[in:x:[,] required:[!A]]",
	} {
		if got := fmt.Sprint(map[string][]string(parseQuery(raw))); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

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
