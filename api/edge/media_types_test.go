package edge

import (
	"net/http"
	"testing"
)

func TestAcceptsJSON(t *testing.T) {
	for header, want := range map[string]bool{
		"application/json":                       true,
		"APPLICATION/json ; q=0.001":             true,
		"text/plain, */*;q=0.5":                  true,
		"application/json;q=0, */*":              false, // the more specific range decides
		"*/*, application/json;q=0.000":          false,
		"application/*;q=0, application/json":    true,
		"application/json;q=0, application/json": false, // the first of two equal ranges
		"application/json;version=1":             false, // a more specific type than the answer's
		`text/plain;a="x, application/json"`:     false,
		`text/plain;a="x\\"", application/json`:  true,
		"application/json;q=1;ext":               true,
		"text/html, image/*":                     false,
		"application/vnd.x+json":                 false,
		", ,":                                    false,
		"nonsense":                               true, // malformed ranges are ignored
		"text/plain, *":                          true,
		"text/plain;q=2":                         true,
		"text/plain;q=0.0001":                    true,
		"text/plain;level":                       true,
		`text/plain;a="x`:                        true,
	} {
		if got := acceptsJSON(http.Header{"Accept": {header}}); got != want {
			t.Errorf("%s: %v", header, got)
		}
	}
	if !acceptsJSON(http.Header{}) || !acceptsJSON(http.Header{"Accept": {""}}) ||
		acceptsJSON(http.Header{"Accept": {"text/plain", "image/png"}}) {
		t.Error("wrong result without a header, with an empty one or with two")
	}
}
