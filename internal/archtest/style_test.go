package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	maxFunctionLines = 70  // lines
	maxFileLines     = 600 // lines
)

// sourceFile is a parsed file of a package.
type sourceFile struct {
	row  Row
	fset *token.FileSet
	file *ast.File
	name string // package/file
}

// parseOnce parses every non-test file of every package once for all tests.
var parseOnce = sync.OnceValues(func() ([]sourceFile, error) {
	found, err := listOnce()
	if err != nil {
		return nil, err
	}
	var files []sourceFile
	for _, row := range Rows() {
		p := found[row.Package]
		for _, f := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			files = append(files, sourceFile{row, fset, file, row.Package + "/" + f})
		}
	}
	return files, nil
})

// visit calls check with every non-test file of every package.
func visit(t *testing.T, check func(row Row, fset *token.FileSet, file *ast.File, name string)) {
	t.Helper()
	files, err := parseOnce()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		check(f.row, f.fset, f.file, f.name)
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	has := map[string]bool{}
	visit(t, func(row Row, _ *token.FileSet, file *ast.File, name string) {
		has[row.Package] = has[row.Package] || (file.Doc != nil && len(strings.Fields(file.Doc.Text())) >= 8)
	})
	for name, ok := range has {
		if !ok {
			t.Errorf("%s has no package comment of at least 8 words", name)
		}
	}
}

func TestEveryExportedNameHasAComment(t *testing.T) {
	visit(t, func(row Row, fset *token.FileSet, file *ast.File, name string) {
		if file.Name.Name == "main" {
			return
		}
		for _, decl := range file.Decls {
			for _, missing := range undocumented(decl) {
				t.Errorf("%s: %s has no doc comment", name, missing)
			}
		}
	})
}

func undocumented(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	expr := d.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if index, ok := expr.(*ast.IndexExpr); ok {
		expr = index.X
	}
	id, ok := expr.(*ast.Ident)
	return ok && id.IsExported()
}

func TestSizes(t *testing.T) {
	visit(t, func(row Row, fset *token.FileSet, file *ast.File, name string) {
		if n := fset.File(file.Pos()).LineCount(); n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: split it", name, n, maxFileLines)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n > maxFunctionLines {
					t.Errorf("%s: %s has %d lines, more than %d: split it", name, f.Name.Name, n, maxFunctionLines)
				}
			}
		}
	})
}

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

// Packages do not register themselves in init, and package names say what a package contains.
func TestNoInitAndNoEmptyNames(t *testing.T) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "manager", "base", "types", "models", "core", "impl"}
	visit(t, func(row Row, fset *token.FileSet, file *ast.File, name string) {
		if slices.Contains(empty, file.Name.Name) {
			t.Errorf("%s: the package name %s has no meaning", name, file.Name.Name)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s registers itself in init: list it in a table of the assembly", name)
			}
		}
	})
}

// TestRaceExemptPackagesArePure compares the list in .ci/pure with the rules. internal/sim and this package are not
// pure, but have no goroutine either.
func TestRaceExemptPackagesArePure(t *testing.T) {
	text, err := os.ReadFile("../../.ci/pure")
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
				t.Errorf(".ci/pure lists %s, which is not a pure package but %q", p, kind)
			}
		}
	}
	if listed < 5 {
		t.Errorf(".ci/pure lists %d packages", listed)
	}
}
