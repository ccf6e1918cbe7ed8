package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

type thing struct {
	Name  string              `json:"name"`
	Size  string              `json:"size"`
	Tags  []string            `json:"tags"`
	Inner *thing              `json:"inner,omitempty"`
	Of    map[string][]string `json:"of,omitempty"`
	Any   any                 `json:"any"`
	Raw   json.RawMessage     `json:"raw,omitempty"`
}

// listThings prints things as a list with the flags o.
func listThings(o OutputFlags, long bool, list ...thing) (string, error) {
	var out bytes.Buffer
	err := printList(&Globals{OutputFlags: o, Stdout: &out}, list, "Name", long, []column[thing]{
		{name: "Name", text: func(t thing) string { return t.Name }},
		{name: "Disk size", text: func(t thing) string { return t.Size }},
		{name: "Tags", long: true, text: func(t thing) string { return strings.Join(t.Tags, " ") }},
	})
	return strings.Join(strings.Fields(out.String()), " "), err
}

func TestListsAreSortedAndHaveTheChosenColumns(t *testing.T) {
	all := []thing{{Name: "cmp10", Size: "5", Tags: []string{"x"}}, {Name: "cmp2", Size: "30"},
		{Name: "cmp010", Size: "5"},
		{Name: "a", Size: "200"}}
	for want, o := range map[string]OutputFlags{
		"NAME DISK SIZE a 200 cmp2 30 cmp010 5 cmp10 5": {},
		"DISK SIZE 200 30 5 5":                          {Columns: []string{"disk-size"}},
		"TAGS NAME a cmp2 cmp010 x cmp10":               {Columns: []string{"tags", "NAME"}},
		"NAME cmp010 cmp10 cmp2 a":                      {Columns: []string{"Name"}, Sort: "disk size"},
		"NAME a cmp2 cmp010 cmp10":                      {Columns: []string{"Name"}, Sort: "Disk_size:desc"},
	} {
		if got, err := listThings(o, false, all...); err != nil || got != want {
			t.Errorf("%+v: %q %v, want %q", o, got, err, want)
		}
	}
	if got, err := listThings(OutputFlags{}, true, all[0]); err != nil || got != "NAME DISK SIZE TAGS cmp10 5 x" {
		t.Errorf("--long: %q %v", got, err)
	}
	for _, o := range []OutputFlags{{Columns: []string{"size"}}, {Sort: "size"}} {
		if _, err := listThings(o, false); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(),
			"the columns are Name, Disk size, Tags") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []OutputFlags{{Output: "json", Columns: []string{"Name"}}, {Sort: "Name:up"}} {
		if o.Validate() == nil {
			t.Errorf("%+v is valid", o)
		}
	}
}

// Empty lists are [] everywhere in JSON; other values stay.
func TestEmptyListsInJSON(t *testing.T) {
	if got, err := listThings(OutputFlags{Output: "json"}, false); err != nil || got != "[]" {
		t.Errorf("%q %v", got, err)
	}
	one := thing{Name: "a", Inner: &thing{}, Of: map[string][]string{"k": nil}, Any: thing{Name: "b"},
		Raw: json.RawMessage(`{"x": null}`)}
	got, err := listThings(OutputFlags{Output: "json"}, false, one)
	want := `[ { "name": "a", "size": "", "tags": [], "inner": { "name": "", "size": "", "tags": [], "any": null }, ` +
		`"of": { "k": [] }, "any": { "name": "b", "size": "", "tags": [], "any": null }, "raw": { "x": null } } ]`
	if err != nil || got != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
}

// A table fits the width: its widest columns are shortened, but not ids and addresses. Then the ids are left out, and
// then the last columns. If all are to be shown, ids are shortened too.
func TestTablesFitTheTerminal(t *testing.T) {
	id := "10000000-0000-4000-8000-000000000001"
	rule := []string{id, "ingress"}
	if shown := fit([]string{"ID", "Direction"}, [][]string{rule}, 40, false); !slices.Equal(shown, []int{0}) {
		t.Errorf("of an object without a name the columns %d are shown", shown)
	}
	for _, c := range []struct {
		width int
		all   bool
		want  []string
	}{
		{200, false, []string{id, "a-long-name-of-a-server", "0000:11:00.1", "a sentence that says much", "up"}},
		{90, false, []string{id, "a-long-name-o…", "0000:11:00.1", "a sentence tha…", "up"}},
		{77, false, []string{id, "a-long-…", "0000:11:00.1", "a sente…", "up"}},
		{76, false, []string{"a-long-name-of-a-server", "0000:11:00.1", "a sentence that says much", "up"}},
		{39, false, []string{"a-long-…", "0000:11:00.1", "a sente…", "up"}},
		{38, false, []string{"a-long-nam…", "0000:11:00.1", "a sentence…"}},
		{8, false, []string{"a-long-…"}},
		{60, true, []string{"10000000-0…", "a-long-name…", "0000:11:00.1", "a sentence …", "up"}},
		{10, true, []string{"1000000…", "a-long-…", "0000:11…", "a sente…", "up"}},
	} {
		header := []string{"ID", "Name", "Address", "The fault of the server", "State"}
		row := []string{id, "a-long-name-of-a-server", "0000:11:00.1", "a sentence that says much", "up"}
		shown := fit(header, [][]string{row}, c.width, c.all)
		if got := pick(row, shown); !slices.Equal(got, c.want) {
			t.Errorf("%d columns: %q, want %q", c.width, got, c.want)
		}
	}
}

// People see times of their zone, programs UTC, in whole seconds.
func TestTimesForPeopleAndPrograms(t *testing.T) {
	zone := time.Local
	t.Cleanup(func() { time.Local = zone })
	time.Local = time.FixedZone("there", 2*3600)
	for _, text := range []string{"2026-11-26T10:00:00Z", "2026-11-26T10:00:00.000000", "2026-11-26T12:00:00+02:00"} {
		if people, programs := localTimeOf(text), utcTime(text); people != "2026-11-26 12:00:00" ||
			programs != "2026-11-26T10:00:00Z" {
			t.Errorf("%s: %s, %s", text, people, programs)
		}
	}
	if none, other := localTime(time.Time{}), localTimeOf("soon"); none != "-" || other != "soon" {
		t.Errorf("%q %q", none, other)
	}
}
