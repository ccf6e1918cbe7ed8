package condition_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/condition"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// TestNew checks the level of a condition, and that its remedy is the last clause of its text.
func TestNew(t *testing.T) {
	for _, c := range []struct {
		kind                  condition.Kind
		text, problem, remedy string
		level                 condition.Level
	}{
		{condition.Hypervisor, "libvirt cannot be reached; start libvirtd", "libvirt cannot be reached", "start libvirtd",
			condition.Error},
		{condition.Plan, "a: b; c; do `d`", "a: b; c", "do `d`", condition.Warning},
		{condition.Transfer, "the image a is being downloaded", "the image a is being downloaded", "", condition.Info},
		{"of a later version", "x", "x", "", condition.Warning},
		{condition.Sync, "", "", "", condition.Error},
		{condition.Sync, "a; ", "a", "", condition.Error},
	} {
		got := condition.New(c.kind, "s", c.text)
		if got.Kind != c.kind || got.Level != c.level || got.Subject != "s" || got.Text != c.text ||
			got.Problem() != c.problem || got.Remedy != c.remedy {
			t.Errorf("%q: %+v, problem %q", c.text, got, got.Problem())
		}
	}
}

// TestWorst checks the highest level of conditions.
func TestWorst(t *testing.T) {
	info, warning, bad := condition.Condition{Level: "info"}, condition.Condition{Level: "warning"},
		condition.Condition{Level: "error"}
	for _, c := range []struct {
		list []condition.Condition
		want condition.Level
	}{
		{nil, ""}, {[]condition.Condition{info}, condition.Info}, {[]condition.Condition{info, warning}, condition.Warning},
		{[]condition.Condition{bad, info, warning}, condition.Error}, {[]condition.Condition{{Level: "unknown"}}, ""},
	} {
		if got := condition.Worst(c.list); got != c.want {
			t.Errorf("%v: %q", c.list, got)
		}
	}
}

// TestDated checks which conditions keep the time at which they were first seen.
func TestDated(t *testing.T) {
	at := func(kind condition.Kind, subject, text string, minute int) condition.Condition {
		return condition.New(kind, subject, text).At(noon.Add(time.Duration(minute) * time.Minute))
	}
	before := []condition.Condition{at("clean", "d1", "failed once", 1), at("clean", "d2", "failed", 2),
		at("plan", "", "one", 3), at("plan", "", "two", 4), at("sync", "", "x", 0)}
	for _, c := range []struct {
		what string
		list []condition.Condition
		want []int // minutes
	}{
		{"the same", before, []int{1, 2, 3, 4, 0}},
		{"another text of one subject", []condition.Condition{at("clean", "d1", "failed twice", 99)}, []int{1}},
		{"another subject", []condition.Condition{at("clean", "d3", "failed", 99)}, []int{9}},
		{"one of two has ended", []condition.Condition{at("plan", "", "two", 99)}, []int{4}},
		{"one of two has another text", []condition.Condition{at("plan", "", "three", 99), at("plan", "", "two", 99)},
			[]int{3, 4}},
		{"a third one", []condition.Condition{at("plan", "", "three", 99), at("plan", "", "one", 99),
			at("plan", "", "two", 99)}, []int{9, 3, 4}},
		{"none", nil, nil},
	} {
		given := slices.Clone(c.list)
		var got []int
		for _, d := range condition.Dated(c.list, before, noon.Add(9*time.Minute)) {
			got = append(got, int(d.Since.Sub(noon).Minutes()))
		}
		if !slices.Equal(got, c.want) || !slices.Equal(given, c.list) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestJSON checks the form in the APIs: a condition that is not dated has no time.
func TestJSON(t *testing.T) {
	for _, c := range []struct {
		condition condition.Condition
		want      string
	}{
		{condition.New(condition.Sync, "", "a"), `{"kind":"sync","level":"error","text":"a"}`},
		{condition.New(condition.Clean, "0000:01:00.0", "a; b").At(noon.Add(time.Millisecond)),
			`{"kind":"clean","level":"warning","subject":"0000:01:00.0","since":"2026-11-27T12:00:00Z","text":"a; b",` +
				`"remedy":"b"}`},
		{condition.New(condition.Sync, "", "a").At(time.Time{}), `{"kind":"sync","level":"error","text":"a"}`},
	} {
		got, err := json.Marshal(c.condition)
		if fmt.Sprint(string(got), err) != c.want+"<nil>" {
			t.Errorf("%s %v", got, err)
		}
	}
}

// TestDocumentedKinds checks that the documentation of the API has each kind with its level.
func TestDocumentedKinds(t *testing.T) {
	text, err := os.ReadFile("../docs/berth-api/README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, line := range strings.Split(string(text), "\n") {
		for _, level := range condition.Levels {
			if strings.Contains(line, "` | "+string(level)+" | ") {
				rows++
			}
		}
	}
	for _, kind := range condition.Kinds() {
		if row := "| `" + string(kind) + "` | " + string(kind.Level()) + " | "; !strings.Contains(string(text), row) {
			t.Errorf("no row %q", row)
		}
	}
	if rows != len(condition.Kinds()) {
		t.Errorf("%d rows of kinds, want %d", rows, len(condition.Kinds()))
	}
}
