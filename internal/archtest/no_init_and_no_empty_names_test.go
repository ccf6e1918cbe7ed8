package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

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
