package openapi

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

var update = flag.Bool("update", false, "write docs/berth-api")

// fileOf returns the name of the document of a service.
func fileOf(service string) string { return "../../docs/berth-api/" + service + ".yaml" }

// commentsOf returns the comments of the types and fields of a package, as Document wants them.
func commentsOf(t *testing.T, all map[string]string, dir string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", dir, err)
	}
	prefix := path.Base(dir) + "."
	if dir == "." {
		prefix = ""
	}
	for _, name := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			decl, is := n.(*ast.GenDecl)
			if !is || decl.Tok != token.TYPE {
				return true
			}
			for _, spec := range decl.Specs {
				one := spec.(*ast.TypeSpec)
				body, is := one.Type.(*ast.StructType)
				if !is {
					continue
				}
				all[prefix+one.Name.Name] = textOf(decl.Doc, one.Doc)
				for _, field := range body.Fields.List {
					for _, name := range field.Names {
						all[prefix+one.Name.Name+"."+name.Name] = textOf(field.Doc, field.Comment)
					}
				}
			}
			return true
		})
	}
}

// textOf returns the text of the first comment that is there, in one line.
func textOf(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if text := strings.Join(strings.Fields(g.Text()), " "); text != "" {
			return text
		}
	}
	return ""
}

// TestDocuments compares docs/berth-api with the operations and with the types of the contracts.
func TestDocuments(t *testing.T) {
	comments := map[string]string{}
	for _, dir := range []string{".", "../../api/host", "../../api/compute", "../../api/network", "../../api/placement",
		"../../condition", "../../hosttree"} {
		commentsOf(t, comments, dir)
	}
	for _, service := range Services {
		want, err := Document(service, comments)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(fileOf(service), want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(fileOf(service))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not that of the program (%v); run: go test ./internal/openapi -update", fileOf(service), err)
		}
	}
}

// TestReferences finds each schema to which a document refers, and each operation once.
func TestReferences(t *testing.T) {
	count := 0
	for _, service := range Services {
		count += checkReferences(t, service)
	}
	if count != len(Operations()) {
		t.Errorf("%d operations in the documents, want %d", count, len(Operations()))
	}
}

// checkReferences checks the document of a service and returns the number of its operations.
func checkReferences(t *testing.T, service string) (operations int) {
	data, err := os.ReadFile(fileOf(service))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, methods := range doc.Paths {
		operations += len(methods)
		for _, operation := range methods {
			references(operation, used)
		}
	}
	references(map[string]any(doc.Components.Schemas), used)
	for name := range used {
		if doc.Components.Schemas[name] == nil {
			t.Errorf("%s has no schema %s", service, name)
		}
	}
	for name := range doc.Components.Schemas {
		if !used[name] {
			t.Errorf("schema %s of %s is not used", name, service)
		}
	}
	return operations
}

// references adds the names of the schemas to which a part of a document refers.
func references(part any, used map[string]bool) {
	switch part := part.(type) {
	case map[string]any:
		for key, value := range part {
			if name, is := value.(string); is && key == "$ref" {
				used[strings.TrimPrefix(name, "#/components/schemas/")] = true
			}
			references(value, used)
		}
	case []any:
		for _, one := range part {
			references(one, used)
		}
	}
}
