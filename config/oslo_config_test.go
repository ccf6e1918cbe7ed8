package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"testing"
)

// optionRead is one option to read from a case's files. testdata/record_oslo_answers.py registers the same option with
// oslo.config.
type optionRead struct {
	Type, Group, Option string
	Deprecated          []Name
	Min, Max            *float64
	Choices             []string
}

// osloCases is the content of testdata/oslo_cases.json.
type osloCases struct {
	Parse []struct{ Name, Text string }
	Read  []struct {
		Name  string
		Files []string
		Read  []optionRead
	}
}

// osloAnswers is the content of testdata/oslo_answers.json: the results of oslo.config 9.0.0 for the cases.
type osloAnswers struct {
	Version string
	Parse   map[string]struct {
		Error    string
		Sections map[string]map[string][]string
	}
	Read map[string][]struct {
		Error string
		Value any
	}
}

func readOsloCases(t testing.TB) (cases osloCases, answers osloAnswers) {
	t.Helper()
	for name, into := range map[string]any{"oslo_cases.json": &cases, "oslo_answers.json": &answers} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return cases, answers
}

// TestParseLikeOsloConfig compares the parsed entries and the rejected texts with those of oslo.config.
func TestParseLikeOsloConfig(t *testing.T) {
	cases, answers := readOsloCases(t)
	for _, c := range cases.Parse {
		t.Run(c.Name, func(t *testing.T) {
			want, ok := answers.Parse[c.Name]
			if !ok {
				t.Fatal("the case has no answer of oslo.config; run testdata/record_oslo_answers.py")
			}
			file, err := Parse("0.conf", []byte(c.Text))
			if (err != nil) != (want.Error != "") {
				t.Fatalf("error %v, oslo.config's %q", err, want.Error)
			}
			if err != nil {
				return
			}
			got := map[string]map[string][]string{}
			for _, e := range file.Entries {
				if got[e.Group] == nil {
					got[e.Group] = map[string][]string{}
				}
				got[e.Group][e.Option] = append(got[e.Group][e.Option], e.Value)
			}
			if !reflect.DeepEqual(got, want.Sections) {
				t.Errorf("got  %q\nwant %q", got, want.Sections)
			}
		})
	}
}

// TestReadLikeOsloConfig compares merged, converted and substituted values with those of oslo.config.
func TestReadLikeOsloConfig(t *testing.T) {
	cases, answers := readOsloCases(t)
	for _, c := range cases.Read {
		t.Run(c.Name, func(t *testing.T) {
			config := New()
			for i, text := range c.Files {
				file, err := Parse(fmt.Sprint(i, ".conf"), []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				config.files = append(config.files, file)
			}
			if len(answers.Read[c.Name]) != len(c.Read) {
				t.Fatal("the case has no answer of oslo.config; run testdata/record_oslo_answers.py")
			}
			for i, option := range c.Read {
				want := answers.Read[c.Name][i]
				got, err := option.read(config)
				switch {
				case (err != nil) != (want.Error != ""):
					t.Errorf("[%s] %s: %v, error %v; oslo.config: %v, error %q", option.Group, option.Option, got, err, want.Value,
						want.Error)
				case err == nil && fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want.Value):
					t.Errorf("[%s] %s: %#v; oslo.config: %#v", option.Group, option.Option, got, want.Value)
				}
			}
		})
	}
}

// read returns the option's value in the types of decoded JSON. It returns nil if no file sets the option, as
// oslo.config returns None.
func (a optionRead) read(c *Config) (any, error) {
	least, most := math.Inf(-1), math.Inf(1)
	leastInt, mostInt := math.MinInt, math.MaxInt
	if a.Min != nil {
		least, leastInt = *a.Min, int(*a.Min)
	}
	if a.Max != nil {
		most, mostInt = *a.Max, int(*a.Max)
	}
	entry, found := c.Get(a.Group, a.Option, a.Deprecated...)
	unset := !found || entry.Value == "" && (a.Type == "int" || a.Type == "float")
	var value any
	var err error
	switch a.Type {
	case "bool":
		value, err = c.Bool(a.Group, a.Option, true, a.Deprecated...)
	case "int":
		var number int
		number, err = c.Int(a.Group, a.Option, 4711, leastInt, mostInt, a.Deprecated...)
		if unset && number != 4711 {
			return nil, fmt.Errorf("unset, but read as %d", number)
		}
		value = float64(number)
	case "float":
		value, err = c.Float(a.Group, a.Option, 4711, least, most, a.Deprecated...)
		if unset && value != 4711.0 {
			return nil, fmt.Errorf("unset, but read as %v", value)
		}
	case "string":
		value, err = c.String(a.Group, a.Option, "", a.Choices, a.Deprecated...)
	case "strings":
		value, err = c.Strings(a.Group, a.Option, nil, a.Deprecated...)
	case "multi":
		var list []string
		for _, e := range c.All(a.Group, a.Option, a.Deprecated...) {
			if err := e.Check(); err != nil {
				return nil, err
			}
			list = append(list, e.Value)
		}
		value = list
	}
	if unset && err == nil {
		return nil, nil
	}
	return value, err
}
