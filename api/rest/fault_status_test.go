package rest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/openberth/berth/fault"
)

// declaredKinds returns the values of the constants of type fault.Kind.
func declaredKinds(t *testing.T) (kinds []fault.Kind) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../fault/fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Kind" {
			return false
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, fault.Kind(text))
		return false
	})
	return kinds
}

// A client of one service that answers its own caller with the same fault must not change its kind. Only the difference
// between Conflict and NoCapacity is lost, because both are 409.
func TestStatusesAndKindsAgree(t *testing.T) {
	kinds := declaredKinds(t)
	if len(kinds) < 7 {
		t.Fatalf("fault declares %d kinds: %q", len(kinds), kinds)
	}
	for _, kind := range kinds {
		want := kind
		if kind == fault.NoCapacity {
			want = fault.Conflict
		}
		status := StatusOfKind(kind)
		if got := KindOfStatus(status); got != want {
			t.Errorf("%q is answered with %d, which a client reads as %q; want %q", kind, status, got, want)
		}
	}
}

func TestStatusOfKind(t *testing.T) {
	for kind, want := range map[fault.Kind]int{
		fault.Invalid: 400, fault.NotFound: 404, fault.Conflict: 409, fault.NoCapacity: 409, fault.Forbidden: 403,
		fault.Unavailable: 503, fault.Internal: 500, "": 500, "unknown": 500,
	} {
		if got := StatusOfKind(kind); got != want {
			t.Errorf("%q: got %d, want %d", kind, got, want)
		}
	}
}

func TestKindOfEachStatus(t *testing.T) {
	kinds := map[int]fault.Kind{400: fault.Invalid, 406: fault.Invalid, 413: fault.Invalid, 415: fault.Invalid,
		404: fault.NotFound, 405: fault.NotFound, 409: fault.Conflict, 401: fault.Forbidden, 403: fault.Forbidden,
		408: fault.Unavailable, 502: fault.Unavailable, 503: fault.Unavailable, 504: fault.Unavailable}
	for status := 400; status < 600; status++ {
		want, ok := kinds[status]
		if !ok {
			want = fault.Internal
		}
		if got := KindOfStatus(status); got != want {
			t.Errorf("%d: got %q, want %q", status, got, want)
		}
	}
}
