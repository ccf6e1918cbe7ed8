package archtest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/openberth/berth"

func allowed(row Row, ours string) bool {
	return slices.ContainsFunc(row.Imports, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "…"); ok {
			return strings.HasPrefix(ours, prefix)
		}
		return ours == pattern
	})
}

func TestEveryPackageHasARowAndEveryRowAPackage(t *testing.T) {
	found := packages(t)
	rows := map[string]bool{}
	for _, row := range Rows() {
		rows[row.Package] = true
		if _, ok := found[row.Package]; !ok {
			t.Errorf("%s has a row in internal/archtest/import_rules.go, but does not exist: remove the row", row.Package)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range rows {
		if !bytes.Contains(text, []byte("\n| `"+name+"`")) {
			t.Errorf("%s has no row in the map of ARCHITECTURE.md: add one", name)
		}
	}
	for name := range found {
		if !rows[name] {
			t.Errorf("%s has no row: add one to internal/archtest/import_rules.go and to the map in ARCHITECTURE.md", name)
		}
	}
}

func TestUnreachablePackages(t *testing.T) {
	found := packages(t)
	for name, forbidden := range unreachable {
		seen, due := map[string]bool{}, []string{name}
		for ; len(due) > 0; due = due[1:] {
			if slices.Contains(forbidden, due[0]) {
				t.Errorf("%s imports %s, directly or through others", name, due[0])
			}
			for _, path := range found[due[0]].Imports {
				if ours, is := strings.CutPrefix(path, module+"/"); is && !seen[ours] {
					seen[ours] = true
					due = append(due, ours)
				}
			}
		}
		if len(seen) < 5 {
			t.Errorf("%s reaches only %d packages, so the test shows nothing", name, len(seen))
		}
	}
}

func TestImportsAreAllowed(t *testing.T) {
	found := packages(t)
	for _, row := range Rows() {
		for _, path := range found[row.Package].Imports {
			if ours, ok := strings.CutPrefix(path, module+"/"); ok {
				if !allowed(row, ours) {
					t.Errorf("%s (%s) imports %s, which its row does not allow", row.Package, row.Kind, ours)
				}
				continue
			}
			if !strings.Contains(strings.Split(path, "/")[0], ".") {
				continue // the standard library
			}
			if !slices.ContainsFunc(row.Outside, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") }) {
				t.Errorf("%s (%s) imports %s from outside, which its row does not allow", row.Package, row.Kind, path)
			}
		}
		if len(found[row.Package].CgoFiles) > 0 {
			t.Errorf("%s uses cgo", row.Package)
		}
	}
}

// Only the assembly imports packages of several services, so that a service can be deleted and the rest
// builds.
func TestServicesDoNotImportEachOther(t *testing.T) {
	services := []string{"placement", "agent", "compute"}
	service := func(name string) string {
		top, _, _ := strings.Cut(name, "/")
		if slices.Contains(services, top) {
			return top
		}
		return ""
	}
	kinds := map[string]Kind{}
	for _, row := range Rows() {
		kinds[row.Package] = row.Kind
	}
	for name, p := range packages(t) {
		// The simulation connects the services itself, the benchmarks fill databases with the code of the services, and
		// internal/coexist runs an agent beside each Placement service.
		if kinds[name] == Assembly || slices.Contains([]string{"internal/sim", "internal/bench", "internal/coexist"}, name) {
			continue
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			ours, ok := strings.CutPrefix(path, module+"/")
			if ok && service(ours) != "" && service(ours) != service(name) && ours != placementTest &&
				!slices.Contains(mayUse[name], ours) {
				t.Errorf("%s imports %s of another service", name, ours)
			}
		}
	}
}

// placementTest is the Placement in memory, which tests of all services use.
const placementTest = "placement/placementtest"

// mayUse are pure packages. fleet compares the servers of Nova with what flavors and ports request. fleet/headroom
// counts in memory as Placement does, and compute/schedule searches for ports as Placement does.
var mayUse = map[string][]string{"fleet": {"compute/flavor", "compute/portrequest"},
	"fleet/headroom":   {"placement/headroom", "placement/index"},
	"compute/schedule": {"placement/candidate", "placement/index"}}

// Only tests and the simulation import the Placement in memory; api/… in a row does not allow it.
func TestOnlyTestsImportThePlacementForTests(t *testing.T) {
	for name, p := range packages(t) {
		if name != "internal/sim" && slices.Contains(p.Imports, module+"/"+placementTest) {
			t.Errorf("%s imports %s outside of its tests", name, placementTest)
		}
	}
}
