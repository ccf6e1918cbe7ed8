package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// osloCase is a line of testdata/oslo_policy_cases.jsonl: a service's rules, a file, a request, and the answers of
// oslo.policy (Want).
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

// restoreIntegers replaces each json.Number in value by an int64 or a float64, as Python distinguishes them.
func restoreIntegers(value any) any {
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
			v[i] = restoreIntegers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = restoreIntegers(v[key])
		}
	}
	return value
}

// TestAllowLikeOsloPolicy compares the answers of Allow with those of oslo.policy for recorded cases. Two things
// differ: a rule that oslo.policy cannot parse, or that always fails, is rejected when the files are read; and a rule
// that fails during evaluation is denied.
func TestAllowLikeOsloPolicy(t *testing.T) {
	path := "testdata/oslo_policy_cases.jsonl"
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
		restoreIntegers(c.Creds)
		restoreIntegers(c.Target)
		var rules []Rule
		for _, r := range c.Defaults {
			rules = append(rules, Rule{Name: r.Name, Check: r.Check, Scopes: r.Scopes, Deprecated: r.Deprecated})
		}
		if err := os.WriteFile(written, []byte(c.File), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := New(rules, Options{EnforceNewDefaults: c.NewDefaults, EnforceScope: c.Scope}, written)
		if (c.Want == "refused" && err == nil) || (c.Want != "refused" && err != nil && !c.Odd) {
			t.Fatalf("line %d: want %v, got error %v\n%s", number, c.Want, err, lines.Text())
		}
		if err != nil {
			counts["refused"]++
			continue
		}
		for name, want := range c.Want.(map[string]any) {
			ok, why := e.Allow(name, c.Creds, c.Target)
			if ok != (want == true) {
				t.Fatalf("line %d: %s is %v (%s), oslo.policy returned %v\n%s", number, name, ok, why, want, lines.Text())
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
			t.Errorf("only %d answers are %s, want at least %d: too few cases", counts[kind], kind, least)
		}
	}
}
