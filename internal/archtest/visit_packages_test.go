package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// visit parses every non-test file of every package and calls check.
func visit(t *testing.T, check func(row Row, fset *token.FileSet, file *ast.File, name string)) {
	t.Helper()
	found := packages(t)
	for _, row := range Rows() {
		p := found[row.Package]
		for _, f := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			check(row, fset, file, row.Package+"/"+f)
		}
	}
}

type listed struct {
	ImportPath, Dir, Name     string
	GoFiles, CgoFiles         []string
	Imports, Deps             []string
	TestImports, XTestImports []string
}

// packages returns every package of the module by its path in the module.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Name,GoFiles,CgoFiles,Imports,TestImports,XTestImports",
		"./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	found := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(p.ImportPath, module+"/")] = p
	}
}
