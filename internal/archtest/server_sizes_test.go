package archtest

import (
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	load "golang.org/x/tools/go/packages"
)

// A package of a server has at most maxServerFiles files without tests, and what its handlers need of the database is
// an interface with at most maxStoreMethods methods, those of embedded interfaces included.
const (
	maxServerFiles  = 20
	maxStoreMethods = 15
)

// largerServers are the packages with more files, and largerStores those with more methods. A number is only ever
// lowered.
var (
	largerServers = map[string]int{"compute/server/servers": 41}
	largerStores  = map[string]int{"compute/server": 99, "compute/server/catalog": 26, "compute/server/hosts": 18}
)

// TestServerPackagesAreSmall checks the packages of the HTTP servers: a larger one is split by groups of resources,
// each with its own Routes and its own Store.
func TestServerPackagesAreSmall(t *testing.T) {
	var servers, patterns []string
	for name, p := range packages(t) {
		parts := strings.Split(name, "/")
		if len(parts) < 2 || parts[1] != "server" {
			continue
		}
		servers = append(servers, name)
		patterns = append(patterns, "./"+name)
		limit := max(maxServerFiles, largerServers[name])
		if n := len(p.GoFiles); n > limit {
			t.Errorf("%s has %d files, more than %d: split it by groups of resources", name, n, limit)
		}
	}
	if len(servers) < 10 || !slices.Contains(servers, "image/server") {
		t.Fatalf("the packages of servers are %v, which are too few", servers)
	}
	found, err := load.Load(&load.Config{Dir: filepath.Join("..", ".."), Mode: load.NeedName | load.NeedImports |
		load.NeedDeps | load.NeedTypes}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	stores := 0
	for _, p := range found {
		declared := p.Types.Scope().Lookup("Store")
		if declared == nil || !types.IsInterface(declared.Type()) {
			continue
		}
		stores++
		name := strings.TrimPrefix(p.PkgPath, module+"/")
		limit := max(maxStoreMethods, largerStores[name])
		if n := declared.Type().Underlying().(*types.Interface).NumMethods(); n > limit {
			t.Errorf("%s.Store has %d methods, more than %d: give each group of resources its own", name, n, limit)
		}
	}
	if stores < 4 {
		t.Errorf("only %d packages of servers declare a Store, so the test shows little", stores)
	}
}
