package policy

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestInvalidFilesAreRejected(t *testing.T) {
	for _, c := range []struct{ name, text, why string }{
		{"a rule without a check", "# comment\na: role:x\n\nb: admin\n", `policy.yaml:4: rule "b": "admin" is not a check`},
		{"a rule without a check, in JSON", "{\n\t\"a\": \"role:x\",\n\t\"b\": \"admin\"\n}",
			`policy.yaml:3: rule "b": "admin" is not a check`},
		{"a cycle", "a: rule:b\nb: not rule:c\nc: role:x and rule:a\n",
			`policy.yaml:1: rule "a": it refers to itself: a → b → c → a`},
		{"a cycle through the default rule", "default: rule:absent\n",
			`policy.yaml:1: rule "default": it refers to itself: default → default`},
		{"a number", "a: 5\n", `policy.yaml:1: rule "a": it is not a rule`},
		{"a Boolean", "{\"a\": true}", `policy.yaml:1: rule "a": it is not a rule`},
		{"false, which oslo.policy treats as an empty rule", "a: false\n", `it is not a rule`},
		{"a mapping", "a: {b: c}\n", `it is not a rule`},
		{"lists too deep", "a: [[[x]]]\n", `it is not a rule`},
		{"a list that contains itself", "a: &a [*a]\n", `it is not a rule`},
		{"a bare tag, which would allow all", "a: !\n", `policy.yaml:1: rule "a": a bare ! is not text in YAML`},
		{"a character that is reserved in YAML", "a: @\n", `policy file`},
		{"a name that is a number", "5: role:x\n", `the name of a rule is not text`},
		{"a list of rules", "- a\n", `not a mapping`},
		{"a list of rules, in JSON", "[]", `not a mapping`},
		{"a text", "admin", `not a mapping`},
		{"two documents", "a: role:x\n---\nb: role:y\n", `a second document begins at line 2`},
		{"broken JSON", "{\"a\": \"@\"", `policy file`},
		{"a merge with itself", "<<: &a {<<: *a}\n", `not a mapping`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(nil, Options{}, writeFile(t, t.TempDir(), "policy.yaml", c.text))
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v; want %q", err, c.why)
			}
		})
	}
	if _, err := New(nil, Options{}, filepath.Join(t.TempDir(), "absent")); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	if _, err := New([]Rule{{Name: "a"}, {Name: "a"}}, Options{}); !fault.Is(err, fault.Internal) {
		t.Error(err)
	}
	if _, err := New([]Rule{{Name: "a", Deprecated: &Deprecated{"b", "x"}}}, Options{}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	if _, err := New(nil, Options{}, writeFile(t, t.TempDir(), "p", strings.Repeat("#", maxFileBytes+1))); err == nil ||
		!strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

func TestEmptyFilesKeepDefaults(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "{}", "null", "\n\n"} {
		e := enforcerFor(t, []Rule{{Name: "a", Check: "role:x"}}, Options{}, text)
		checkAllow(t, e, true, "a", Creds{"roles": []string{"x"}}, nil)
		checkAllow(t, e, false, "a", Creds{}, nil)
	}
}

// FuzzFile checks that no file makes the parser panic, and that every parsed rule is found.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"a: role:x\n", `{"a": "@", "b": [["role:x"], []]}`, "<<: &m {a: '!'}\nb: &x [*x]\n",
		"a: !\n", "? [a]\n: b\n", "--- !!map\n\"a\": |\n  @\n", "\ufeff{}", "a: &a\n <<: *a\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := parseFile("fuzz", text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		set, err := compile(nil, entries, Options{DefaultRule: "default"})
		if err != nil {
			return
		}
		for _, e := range entries {
			if set.find(e.name) == nil || e.check.String() == "" {
				t.Fatalf("%q was parsed, but is not found", e.name)
			}
		}
	})
}
