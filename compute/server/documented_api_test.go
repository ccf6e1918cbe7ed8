package server

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/server/actions"
)

// documentedRows returns the rows of the tables of docs/compute-api.md below a heading, as cells without backquotes.
func documentedRows(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/compute-api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("no heading %s", heading)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	for line := range strings.Lines(part) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, "`", "")))
			}
			rows = append(rows, cells)
		}
	}
	return rows[2:]
}

// TestDocumentedAPI compares docs/compute-api.md with the versions, the routes and the actions, in both directions, and
// sends the requests that are refused.
func TestDocumentedAPI(t *testing.T) {
	t.Run("versions", checkDocumentedVersions)
	t.Run("paths", checkDocumentedPaths)
	t.Run("actions", checkDocumentedActions)
	t.Run("absent paths", func(t *testing.T) {
		h := start(t)
		for _, row := range documentedRows(t, "Paths that Berth does not have") {
			if r := h.at("2.1", "GET", "/v2.1"+row[0], ""); r.status != http.StatusNotFound {
				t.Errorf("%s: %d %s", row[0], r.status, r.text)
			}
		}
	})
}

var results = []string{"works", "refused", "not applicable"}

func checkDocumentedVersions(t *testing.T) {
	works := map[compute.Version]bool{}
	next := compute.Min
	for _, row := range documentedRows(t, "Microversions") {
		minor, err := strconv.Atoi(strings.TrimPrefix(row[0], "2."))
		if err != nil || compute.Version(minor) != next || !slices.Contains(results, row[1]) {
			t.Fatalf("row %q: the next version is %s: %v", row, next, err)
		}
		works[next] = row[1] == "works"
		next++
	}
	if next != compute.Max+1 {
		t.Errorf("the last row is %s, the newest version %s", next-1, compute.Max)
	}
	for _, e := range compute.Effects() {
		if !works[e.Version] && e.Version != compute.TrustedImages {
			t.Errorf("%s has an effect, and its row is not %q", e.Version, "works")
		}
	}
}

func checkDocumentedPaths(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	undocumented := map[string]bool{}
	for path, methods := range newServer(Options{}).guardedRoutes() {
		for method := range methods {
			if rest, ok := strings.CutPrefix(path, "/v2.1"); ok {
				undocumented[method+" "+rest] = true
			}
		}
	}
	for _, row := range documentedRows(t, "Paths") {
		method, path, result, note := row[0], row[1], row[2], row[3]
		exists := undocumented[method+" "+path]
		delete(undocumented, method+" "+path)
		switch {
		case !slices.Contains(results, result):
			t.Errorf("%s %s: the result is %q", method, path, result)
		case result == "works" && !exists, result == "refused" && !exists:
			t.Errorf("%s %s is documented, and there is no such route", method, path)
		case result == "works":
			continue
		}
		at := "/v2.1" + strings.NewReplacer("{id}", id, "{host}", "h", "{alias}", "a").Replace(path)
		version := "2.104"
		if strings.HasPrefix(path, "/os-hosts") || strings.HasPrefix(path, "/images") {
			version = "2.35"
		}
		r := h.ask(method, at, "{}", "X-Auth-Token", "admin", "OpenStack-API-Version", "compute "+version)
		status, sentence, _ := strings.Cut(note, ": ")
		if result == "refused" && (fmt.Sprint(r.status) != status || sentence == "" || !strings.Contains(r.text, sentence)) {
			t.Errorf("%s %s: %d %s, want %s", method, path, r.status, r.text, note)
		}
	}
	for route := range undocumented {
		t.Errorf("docs/compute-api.md has no row for %s", route)
	}
}

func checkDocumentedActions(t *testing.T) {
	works, refused := actions.ActionRules(), actions.RefusedActions()
	for _, row := range documentedRows(t, "Actions of a server") {
		action, result, note := row[0], row[1], row[2]
		_, exists := works[action]
		reason, known := refused[action]
		switch {
		case result == "works" && exists && !known:
		case result == "refused" && known && note == reason:
		default:
			t.Errorf("row %q: works %t, refused %q", row, exists && !known, reason)
		}
		delete(works, action)
		delete(refused, action)
	}
	for action := range works {
		t.Errorf("docs/compute-api.md has no row for the action %s", action)
	}
	for action := range refused {
		t.Errorf("docs/compute-api.md has no row for the refused action %s", action)
	}
}
