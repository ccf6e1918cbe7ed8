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

// TestPackagesWithoutGoroutinesAreListed compares .ci/packages-without-goroutines with the rules: it lists the pure
// packages and those of the domain, and two that are not pure, but have no goroutine either.
func TestPackagesWithoutGoroutinesAreListed(t *testing.T) {
	text, err := os.ReadFile("../../.ci/packages-without-goroutines")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"internal/archtest", "internal/sim"}
	for _, row := range Rows() {
		if (row.Kind == Pure || row.Kind == Domain) && row.Package != "docs/guide" {
			want = append(want, row.Package)
		}
	}
	listed := strings.Fields(regexp.MustCompile("(?m)^#.*$").ReplaceAllString(string(text), ""))
	slices.Sort(want)
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		t.Errorf(".ci/packages-without-goroutines lists\n%v\nthe pure packages and those of the domain are\n%v", listed, want)
	}
}

// TestListedTestsExist checks the names of tests in .ci/package-lists, and their beginnings: a test with another name
// would not run, or run twice.
func TestListedTestsExist(t *testing.T) {
	lists, err := os.ReadFile("../../.ci/package-lists")
	if err != nil {
		t.Fatal(err)
	}
	for list, dirs := range map[string][]string{"computing": {"placement/server", "compute/conductor"},
		"sweeps": {"internal/app"}, "mutations": {"internal/sim"}} {
		names := regexp.MustCompile(`(?m)^` + list + `='\^\(([^)]+)\)\$?'$`).FindStringSubmatch(string(lists))
		if names == nil {
			t.Fatalf(".ci/package-lists has no list %s: has its form changed?", list)
		}
		source := testSource(t, dirs)
		for name := range strings.SplitSeq(names[1], "|") {
			if !strings.Contains(source, "\nfunc "+name) {
				t.Errorf(".ci/package-lists names the test %s, which %v do not have", name, dirs)
			}
		}
	}
}

// testSource returns the text of the tests of packages.
func testSource(t *testing.T, dirs []string) (source string) {
	t.Helper()
	for _, dir := range dirs {
		files, err := filepath.Glob("../../" + dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source += string(text)
		}
	}
	return source
}

// TestListedPackagesExist checks the lists of packages in .ci/package-lists: go test fails with a package that
// does not exist, after all others.
func TestListedPackagesExist(t *testing.T) {
	text, err := os.ReadFile("../../.ci/package-lists")
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`(?m)^(?:processes|waiting|slow|shorter)="([^"]+)"`)
	lists := form.FindAllStringSubmatch(string(text), -1)
	if len(lists) != 4 {
		t.Fatalf(".ci/package-lists has %d lists, want 4: has their form changed?", len(lists))
	}
	for _, list := range lists {
		for p := range strings.FieldsSeq(list[1]) {
			if tests, err := filepath.Glob("../../" + p + "/*_test.go"); err != nil || len(tests) == 0 {
				t.Errorf(".ci/package-lists names %s, which has no tests: %v", p, err)
			}
		}
	}
}
