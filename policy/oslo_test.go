package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// osloCase is a line of testdata/oslo.jsonl: what oslo.policy made of one service's rules, a file and a question.
type osloCase struct {
	Odd, NewDefaults, Scope bool
	Defaults                []struct {
		Name, Check string
		Scopes      []string
		Deprecated  *Deprecated
	}
	File   string
	Creds  map[string]any
	Target map[string]any
	Want   any
}

// numbers puts what Python had as whole numbers back: JSON's numbers are all float64 in Go otherwise.
func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole
		}
		number, err := v.Float64()
		if err != nil {
			panic(err)
		}
		return number
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	}
	return value
}

// TestAsOslo asks what oslo.policy was asked. Three answers of it become fewer here: what it cannot read and what
// cannot but fail is refused when the files are read, and what fails when it is asked is denied.
func TestAsOslo(t *testing.T) {
	path := "testdata/oslo.jsonl"
	if other := os.Getenv("BERTH_OSLO_POLICY_CASES"); other != "" {
		path = other // a longer run of testdata/capture.py, by hand
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	counts := map[string]int{}
	written := filepath.Join(t.TempDir(), "policy.yaml")
	for number := 1; lines.Scan(); number++ {
		var c osloCase
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.UseNumber()
		if err := d.Decode(&c); err != nil {
			t.Fatalf("line %d: %v", number, err)
		}
		numbers(c.Creds)
		numbers(c.Target)
		var rules []Rule
		for _, r := range c.Defaults {
			rules = append(rules, Rule{Name: r.Name, Check: r.Check, Scopes: r.Scopes, Deprecated: r.Deprecated})
		}
		if err := os.WriteFile(written, []byte(c.File), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := New(rules, Options{EnforceNewDefaults: c.NewDefaults, EnforceScope: c.Scope}, written)
		if (c.Want == "refused" && err == nil) || (c.Want != "refused" && err != nil && !c.Odd) {
			t.Fatalf("line %d: want %v, have error %v\n%s", number, c.Want, err, lines.Text())
		}
		if err != nil {
			counts["refused"]++
			continue
		}
		for name, want := range c.Want.(map[string]any) {
			ok, why := e.Allow(name, c.Creds, c.Target)
			if ok != (want == true) {
				t.Fatalf("line %d: %s is %v (%s), oslo.policy says %v\n%s", number, name, ok, why, want, lines.Text())
			}
			switch want {
			case true:
				counts["true"]++
			case false:
				counts["false"]++
			default:
				counts["raised"]++
			}
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	t.Log(counts)
	for kind, least := range map[string]int{"true": 1000, "false": 3000, "raised": 50, "refused": 50} {
		if counts[kind] < least {
			t.Errorf("only %d answers are %s: the cases no longer tell much", counts[kind], kind)
		}
	}
}
