package compute

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestNegotiate(t *testing.T) {
	for _, c := range []struct {
		generic []string
		legacy  string
		want    Version
		code    string
		kind    fault.Kind
	}{
		{nil, "", Min, "", ""},
		{[]string{"compute 2.47"}, "", 47, "", ""},
		{[]string{"Compute  2.47"}, "2.3", 47, "", ""},
		{nil, "2.3", 3, "", ""},
		{nil, "latest", Max, "", ""},
		{[]string{"compute latest"}, "", Max, "", ""},
		{[]string{"compute LATEST"}, "", Max, "", ""},
		{[]string{"volume 3.27, compute 2.9"}, "", 9, "", ""},
		{[]string{"volume 3.27", "compute 2.9"}, "", 9, "", ""},
		{[]string{"volume 3.27"}, "", Min, "", ""},
		{[]string{"compute 2.105"}, "", Min, NotServed, fault.Invalid},
		{[]string{"compute 2.0"}, "", Min, NotServed, fault.Invalid},
		{[]string{"compute 1.1"}, "", Min, NotServed, fault.Invalid},
		{[]string{"compute 3.1"}, "", Min, NotServed, fault.Invalid},
		{nil, "2.999999999", Min, NotServed, fault.Invalid},
		{[]string{"compute 2.09"}, "", Min, "", fault.Invalid},
		{[]string{"compute 2"}, "", Min, "", fault.Invalid},
		{[]string{"compute 2.1.1"}, "", Min, "", fault.Invalid},
		{nil, "-2.1", Min, "", fault.Invalid},
		{nil, "2.99999999999999999999", Min, "", fault.Invalid},
	} {
		h := http.Header{}
		for _, line := range c.generic {
			h.Add(VersionHeader, line)
		}
		if c.legacy != "" {
			h.Set(LegacyVersionHeader, c.legacy)
		}
		got, err := Negotiate(h)
		if got != c.want || fault.KindOf(err) != c.kind || fault.CodeOf(err) != c.code {
			t.Errorf("%q %q: %s %v; want %s, kind %q, code %q", c.generic, c.legacy, got, err, c.want, c.kind, c.code)
		}
	}
}

// TestTableInPackageComment tests that the table in the package comment equals Effects.
func TestTableInPackageComment(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(source)) {
		if rest, ok := strings.CutPrefix(line, "//\t2."); ok {
			lines = append(lines, "2."+strings.TrimSpace(rest))
		}
	}
	var want []string
	for _, e := range Effects() {
		want = append(want, fmt.Sprintf("%-6s %s", e.Version, e.Text))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the comment has\n%s\nEffects has\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if !slices.IsSortedFunc(Effects(), func(a, b Effect) int { return int(a.Version - b.Version) }) {
		t.Error("Effects are not in order")
	}
}
