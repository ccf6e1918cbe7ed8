package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A pure package contains values and algorithms. It must not import or call these.
var (
	impureImports = []string{"context", "sync", "sync/atomic", "log", "log/slog", "os", "os/exec", "io/fs", "net",
		"net/http", "net/url",
		"database/sql", "encoding/json", "math/rand", "path/filepath", "syscall"}
	impureCalls = regexp.MustCompile(
		`^(time\.(Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTimer|NewTicker)|` +
			`rand\.(Int|IntN|Perm|Shuffle|Float64|Uint64|N))$`)
)

func TestPurePackagesArePure(t *testing.T) {
	visit(t, func(row Row, fset *token.FileSet, file *ast.File, name string) {
		if row.Kind != Pure && row.Kind != Domain {
			return
		}
		for _, imp := range file.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			// A device_spec is JSON text, so package pci needs the parser.
			if slices.Contains(impureImports, path) && !(row.Package == "pci" && path == "encoding/json") {
				t.Errorf("%s imports %s, which a pure package must not", name, path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine at line %d", name, fset.Position(x.Pos()).Line)
			case *ast.CallExpr:
				if sel, ok := x.Fun.(*ast.SelectorExpr); ok {
					if id, ok := sel.X.(*ast.Ident); ok && impureCalls.MatchString(id.Name+"."+sel.Sel.Name) {
						t.Errorf("%s calls %s.%s at line %d: pass time and randomness as arguments", name, id.Name, sel.Sel.Name,
							fset.Position(x.Pos()).Line)
					}
				}
			}
			return true
		})
	})
}

// TestRaceExemptPackagesArePure compares the list in .ci/packages-without-goroutines with the rules. internal/sim and
// this package are not pure, but have no goroutine either.
func TestRaceExemptPackagesArePure(t *testing.T) {
	text, err := os.ReadFile("../../.ci/packages-without-goroutines")
	if err != nil {
		t.Fatal(err)
	}
	kinds, listed := map[string]Kind{}, 0
	for _, row := range Rows() {
		kinds[row.Package] = row.Kind
	}
	kinds["internal/sim"], kinds["internal/archtest"] = Pure, Pure
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, p := range strings.Fields(line) {
			listed++
			if kind := kinds[p]; kind != Pure && kind != Domain {
				t.Errorf(".ci/packages-without-goroutines lists %s, which is not a pure package but %q", p, kind)
			}
		}
	}
	if listed < 5 {
		t.Errorf(".ci/packages-without-goroutines lists %d packages", listed)
	}
}

// TestListedTestsExist checks the names of tests in .ci/package-lists: a test with another name would not run.
func TestListedTestsExist(t *testing.T) {
	lists, err := os.ReadFile("../../.ci/package-lists")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^computing='\^\(([^)]+)\)\$'$`).FindStringSubmatch(string(lists))
	if names == nil {
		t.Fatal(".ci/package-lists has no list computing: has its form changed?")
	}
	files, err := filepath.Glob("../../placement/server/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	source := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	for name := range strings.SplitSeq(names[1], "|") {
		if !strings.Contains(source, "\nfunc "+name+"(t *testing.T) {") {
			t.Errorf(".ci/package-lists names the test %s, which placement/server does not have", name)
		}
	}
}

// TestListedPackagesExist checks the lists of packages in .ci/package-lists: go test fails with a package that
// does not exist, after all others.
func TestListedPackagesExist(t *testing.T) {
	text, err := os.ReadFile("../../.ci/package-lists")
	if err != nil {
		t.Fatal(err)
	}
	lists := regexp.MustCompile(`(?m)^(?:processes|waiting|slow)="([^"]+)"`).FindAllStringSubmatch(string(text), -1)
	if len(lists) != 3 {
		t.Fatalf(".ci/package-lists has %d lists, want 3: has their form changed?", len(lists))
	}
	for _, p := range strings.Fields(lists[0][1] + " " + lists[1][1] + " " + lists[2][1]) {
		if tests, err := filepath.Glob("../../" + p + "/*_test.go"); err != nil || len(tests) == 0 {
			t.Errorf(".ci/package-lists names %s, which has no tests: %v", p, err)
		}
	}
}
