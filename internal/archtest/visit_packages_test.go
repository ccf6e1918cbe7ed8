package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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

type listed struct {
	ImportPath, Dir, Name     string
	GoFiles, CgoFiles         []string
	Imports, Deps             []string
	TestImports, XTestImports []string
}

// packages returns every package of the module by its path in the module.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	found, err := listOnce()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// listOnce runs go list once for all tests.
var listOnce = sync.OnceValues(func() (map[string]listed, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Name,GoFiles,CgoFiles,Imports,TestImports,XTestImports",
		"./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("go list: %w\n%s", err, e.Stderr)
		}
		return nil, err
	}
	found := map[string]listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		found[strings.TrimPrefix(p.ImportPath, module+"/")] = p
	}
})
