package archtest

import (
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	load "golang.org/x/tools/go/packages"
)

// A package of a server has at most maxServerFiles files without tests, and each interface that its handlers need at
// most maxNeeded methods, those of embedded interfaces included.
const (
	maxServerFiles = 20
	maxNeeded      = 15
)

// TestServerPackagesAreSmall checks the packages of the HTTP servers: a larger one is split by groups of resources,
// each with its own Routes and its own interfaces.
func TestServerPackagesAreSmall(t *testing.T) {
	servers := serverPackages(t)
	if len(servers) < 12 || servers["image/server"].GoFiles == nil {
		t.Fatalf("only %d packages of servers were found", len(servers))
	}
	for name, p := range servers {
		if n := len(p.GoFiles); n > maxServerFiles {
			t.Errorf("%s has %d files, more than %d: split it by groups of resources", name, n, maxServerFiles)
		}
	}
}

// TestServersNeedFewMethods checks the interfaces that the packages of the HTTP servers declare. In the package that
// connects the others they are sums, of which only the methods that no other package needs count.
func TestServersNeedFewMethods(t *testing.T) {
	var patterns []string
	for name := range serverPackages(t) {
		patterns = append(patterns, "./"+name)
	}
	found, err := load.Load(&load.Config{Dir: filepath.Join("..", ".."), Mode: load.NeedName | load.NeedImports |
		load.NeedDeps | load.NeedTypes}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, p := range found {
		connects := strings.HasSuffix(p.PkgPath, "/server")
		for _, name := range p.Types.Scope().Names() {
			needed, is := p.Types.Scope().Lookup(name).Type().Underlying().(*types.Interface)
			if !is {
				continue
			}
			checked++
			n := needed.NumMethods()
			if connects {
				n = needed.NumExplicitMethods()
			}
			if n > maxNeeded {
				t.Errorf("%s.%s has %d methods, more than %d: give each group of resources its own interface",
					p.PkgPath, name, n, maxNeeded)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d interfaces were found, so the test shows little", checked)
	}
}

// serverPackages returns the packages of the HTTP servers of all services.
func serverPackages(t *testing.T) map[string]listed {
	t.Helper()
	all := map[string]listed{}
	for name, p := range packages(t) {
		if parts := strings.Split(name, "/"); len(parts) > 1 && parts[1] == "server" {
			all[name] = p
		}
	}
	return all
}
