package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// The summary counts what passed, prints the output of what failed, and names what was left out.
func TestSummary(t *testing.T) {
	for _, c := range []struct {
		name, events string
		ok           bool
		want         []string
	}{
		{"all passed", `{"Action":"output","Package":"p","Test":"T","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"T"}
{"Action":"pass","Package":"p","Elapsed":1.25}`, true, []string{"ok    p  1.2s", "1 tests passed, 0 failed"}},
		{"left out", `{"Action":"output","Package":"p","Test":"T","Output":"    x_test.go:1: ` + testenv.Prefix +
			`needs MariaDB\n"}
{"Action":"skip","Package":"p","Test":"T"}
{"Action":"pass","Package":"p","Test":"U"}`, true,
			[]string{"not run here; `make check` runs them:", "1 tests: needs MariaDB (p)"}},
		{"skipped for another reason", `{"Action":"output","Package":"p","Test":"T","Output":"not today\n"}
{"Action":"skip","Package":"p","Test":"T"}
{"Action":"pass","Package":"p","Test":"U"}`, true, []string{"1 tests were skipped:\n  p T"}},
		{"a test failed", `{"Action":"output","Package":"p","Test":"T","Output":"    x_test.go:7: the reason\n"}
{"Action":"output","Package":"p","Test":"T","Output":"      a log\n"}
{"Action":"fail","Package":"p","Test":"T"}
{"Action":"fail","Package":"p"}`, false, []string{"FAIL  p T\n    x_test.go:7: the reason\n      a log\n",
			"failed: p T\n    x_test.go:7: the reason\n  failed: p"}},
		{"a panic", `{"Action":"output","Package":"p","Test":"T","Output":"panic: nil map\n"}
{"Action":"fail","Package":"p","Test":"T"}`, false, []string{"failed: p T\n    panic: nil map\n"}},
		{"a build failed", `{"Action":"build-output","ImportPath":"p","Output":"syntax error\n"}
{"Action":"build-fail","ImportPath":"p"}`, false, []string{"syntax error", "failed: p"}},
		{"go failed", `go: no such tool`, false, []string{"go: no such tool"}},
		{"nothing ran", ``, false, []string{"0 tests passed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(c.events)); err != nil {
				t.Fatal(err)
			}
			if ok := s.finish(); ok != c.ok {
				t.Errorf("it reports %t", ok)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, &out)
				}
			}
		})
	}
}
