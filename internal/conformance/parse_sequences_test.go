package conformance

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	found, err := Parse("x.txt", `# a comment
=== one | each 1.5-
use world
PUT /a/$b?c=%20 @1.39 when 1.8-1.11 as new
Accept: text/html
Content-Type:
| {"a": $b.gen,
|  "c": "$("x"*3)$("\u00e9")"}

GET /
=== two
`)
	if err != nil {
		t.Fatal(err)
	}
	one := found[0]
	if len(found) != 2 || !one.EachVersion || one.From != 5 || one.To != Latest || one.Uses != "world" ||
		len(one.Steps) != 2 {
		t.Fatalf("parsed as %+v", found)
	}
	put := one.Steps[0]
	if put.Version != "1.39" || put.From != 8 || put.To != 11 || put.As != "new" || len(put.Headers) != 2 ||
		put.Headers[1].Value != "" || put.Line != 4 {
		t.Errorf("parsed as %+v", put)
	}
	body, err := expand(put.Body, func(name, kind string) (string, error) { return "<" + name + kind + ">", nil })
	if err != nil || body != "{\"a\": <b.gen>,\n \"c\": \"xxxé\"}" {
		t.Errorf("expanded to %q (%v)", body, err)
	}
	for _, wrong := range []string{"GET /", "=== a\n=== a", "=== a | 1.40", "=== a\nfetch /", "=== a\nGET / now",
		"=== a\n| body"} {
		if _, err := Parse("x.txt", wrong); err == nil || !strings.HasPrefix(err.Error(), "x.txt:") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
