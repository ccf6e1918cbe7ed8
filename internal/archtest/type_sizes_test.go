package archtest

import (
	"go/ast"
	"go/token"
	"testing"
)

const (
	maxMethods = 40 // of one type
	maxFields  = 20 // of one struct
)

// largeTypes are the types that exceed maxMethods or maxFields, with the reason. Do not add types that can be split.
var largeTypes = map[string]string{
	"agent/journal.Entry":          "a line of the journal; one field for each stored value",
	"api/compute.Server":           "a wire type: one field for each field of the API",
	"api/compute.Why":              "a wire type: one field for each field of the API",
	"api/host.Device":              "a wire type: one field for each field of the API",
	"api/host.Report":              "a wire type: one field for each field of the API",
	"api/identity.KeystoneOptions": "one field for each option of [keystone_authtoken]",
	"compute/lifecycle.Server":     "the record of a server, stored as one",
	"compute/store.Store":          "one method for each query",
	"internal/settings.Settings":   "one field for each option",
	"placement/store.Store":        "one method for each query",
}

// TestTypeSizes fails for types with too many methods or fields, and for entries of largeTypes that are not large.
func TestTypeSizes(t *testing.T) {
	methods, fields := map[string]int{}, map[string]int{}
	visit(t, func(row Row, _ *token.FileSet, file *ast.File, _ string) {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if name := receiverName(d); name != "" {
					methods[row.Package+"."+name]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						fields[row.Package+"."+s.Name.Name] = fieldCount(s.Type)
					}
				}
			}
		}
	})
	for name, n := range fields {
		large := n > maxFields || methods[name] > maxMethods
		reason, listed := largeTypes[name]
		if large && !listed {
			t.Errorf("%s has %d fields and %d methods, at most %d and %d are allowed: split the type",
				name, n, methods[name], maxFields, maxMethods)
		}
		if listed && (!large || reason == "") {
			t.Errorf("%s has %d fields and %d methods: remove it from largeTypes, or give a reason", name, n, methods[name])
		}
	}
	for name := range largeTypes {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s does not exist: remove it from largeTypes", name)
		}
	}
}

// receiverName returns the name of the type that a method belongs to, or "" for a function.
func receiverName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	expr := d.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	switch x := expr.(type) {
	case *ast.IndexExpr:
		expr = x.X
	case *ast.IndexListExpr:
		expr = x.X
	}
	if id, ok := expr.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// fieldCount returns the number of fields of a struct; an embedded type counts as one.
func fieldCount(expr ast.Expr) (n int) {
	s, ok := expr.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, f := range s.Fields.List {
		n += max(len(f.Names), 1)
	}
	return n
}
