package archtest

import (
	"go/ast"
	"go/token"
	"testing"
)

const (
	maxFunctionLines = 70  // lines
	maxFileLines     = 550 // lines
)

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
