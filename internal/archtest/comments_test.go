package archtest

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

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
