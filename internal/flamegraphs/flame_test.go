package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// stacks returns a profile with one sample for each stack: functions from the outermost to the innermost.
func stacks(times map[string]int64) *profile.Profile {
	p := &profile.Profile{}
	for text, time := range times {
		s := &profile.Sample{Value: []int64{1, time}}
		for name := range strings.SplitSeq(text, " ") {
			f := &profile.Function{Name: name}
			s.Location = append([]*profile.Location{{Line: []profile.Line{{Function: f}}}}, s.Location...)
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// TestTree checks that stacks are added up by their beginnings, that inlined functions are frames of their own, and
// that fixtures are left out.
func TestTree(t *testing.T) {
	p := stacks(map[string]int64{"a b": 60, "a c": 30, "a": 10, "startPlacement x": 500,
		"github.com/openberth/berth/sqldb.(*DB[go.shape.int]).Read": 100})
	inlined := &profile.Sample{Value: []int64{1, 40}, Location: []*profile.Location{{Line: []profile.Line{
		{Function: &profile.Function{Name: "inner"}}, {Function: &profile.Function{Name: "outer"}}}}}}
	p.Sample = append(p.Sample, inlined)
	all := tree(p, []string{"startPlacement"})
	if all.time != 240 || len(all.children) != 3 || all.children["startPlacement"] != nil {
		t.Fatalf("all is %+v", all)
	}
	if a := all.children["a"]; a.time != 100 || a.children["b"].time != 60 || a.children["c"].time != 30 {
		t.Errorf("a is %+v", a)
	}
	if all.children["sqldb.(*DB).Read"].time != 100 {
		t.Errorf("there is no short name: %v", all.children)
	}
	if outer := all.children["outer"]; outer == nil || outer.children["inner"].time != 40 {
		t.Errorf("outer is %+v", outer)
	}
}

// TestDraw checks that a picture is XML, and that the width of each frame is its part of the time.
func TestDraw(t *testing.T) {
	picture := draw("Title <1>", tree(stacks(map[string]int64{"a b": 75, "a c&d": 25}), nil))
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"all": `x="0.0" y="56" width="1200.0"`, "a": `x="0.0" y="72" width="1200.0"`,
		"b": `x="0.0" y="88" width="900.0"`, "c&amp;d": `x="900.0" y="88" width="300.0"`} {
		_, rest, found := strings.Cut(picture, fmt.Sprintf("<title>%s: ", name))
		if line, _, _ := strings.Cut(rest, "\n"); !found || !strings.Contains(line, want) {
			t.Errorf("%s: %s, want %s", name, line, want)
		}
	}
}
