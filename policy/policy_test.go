package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// write makes a file and gives its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func enforcer(t *testing.T, defaults []Rule, opts Options, text string) *Enforcer {
	t.Helper()
	e, err := New(defaults, opts, write(t, t.TempDir(), "policy.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func may(t *testing.T, e *Enforcer, want bool, rule string, creds Creds, target map[string]any) string {
	t.Helper()
	ok, why := e.Allow(rule, creds, target)
	if ok != want || ok == (why != "") {
		t.Errorf("%s for %v on %v: %v (%s); want %v", rule, creds, target, ok, why, want)
	}
	return why
}

func TestFilesReplaceDefaults(t *testing.T) {
	defaults := []Rule{
		{Name: "read", Check: "role:reader"},
		{Name: "write", Check: "rule:power"},
		{Name: "power", Check: "role:admin"},
	}
	e := enforcer(t, defaults, Options{}, "power: &strong role:boss\nextra: *strong\n\"list\": [[\"role:a\", "+
		"\"role:b\"], \"role:c\"]\nnothing:\n")
	boss, reader := Creds{"roles": []string{"Boss"}}, Creds{"roles": []string{"reader"}}
	may(t, e, true, "read", reader, nil)
	may(t, e, true, "write", boss, nil)
	may(t, e, true, "extra", boss, nil)
	may(t, e, true, "nothing", Creds{}, nil)
	may(t, e, false, "list", Creds{"roles": []string{"a"}}, nil)
	may(t, e, true, "list", Creds{"roles": []string{"a", "b"}}, nil)
	may(t, e, true, "list", Creds{"roles": []string{"c"}}, nil)
	if why := may(t, e, false, "write", reader, nil); why != "write takes rule:power (default)" {
		t.Error(why)
	}
	if why := may(t, e, false, "power", reader, nil); !strings.Contains(why, "power takes role:boss "+
		"(") || !strings.Contains(why, "policy.yaml:1)") {
		t.Error(why)
	}
	if why := may(t, e, false, "absent", boss, nil); !strings.Contains(why, "nobody wrote a rule absent") {
		t.Error(why)
	}
}

func TestDefaultRule(t *testing.T) {
	e := enforcer(t, nil, Options{}, "default: role:x\na: rule:absent\n")
	may(t, e, true, "absent", Creds{"roles": []string{"x"}}, nil)
	may(t, e, true, "a", Creds{"roles": []string{"x"}}, nil)
	may(t, e, false, "absent", Creds{}, nil)
	other := enforcer(t, nil, Options{DefaultRule: "other"}, "default: \"@\"\nother: \"!\"\n")
	may(t, other, false, "absent", Creds{}, nil)
}

// What a credential of the wrong kind leaves open is denied, also where a `not` would turn it round.
func TestWhatCannotBeJudgedIsDenied(t *testing.T) {
	e := enforcer(t, nil, Options{}, "deep: not project.id:x\nroles: not role:a\ntarget: not a:%(odd)s\n")
	for rule, c := range map[string]struct {
		creds  Creds
		target map[string]any
	}{
		"deep":   {creds: Creds{"project": "p"}},
		"roles":  {creds: Creds{"roles": "a"}},
		"target": {target: map[string]any{"odd": struct{}{}}},
	} {
		if why := may(t, e, false, rule, c.creds, c.target); !strings.Contains(why, "cannot be judged") {
			t.Error(why)
		}
	}
	may(t, e, true, "deep", Creds{}, nil)
	may(t, e, true, "target", Creds{}, nil)
}

func TestScopes(t *testing.T) {
	rules := []Rule{
		{Name: "sys", Check: "@", Scopes: []string{"system"}},
		{Name: "both", Check: "@", Scopes: []string{"system", "project"}},
		{Name: "any", Check: "@"},
	}
	system, domain, project := Creds{
		"system_scope": "all",
	}, Creds{
		"domain_id": "d",
	}, Creds{
		"project_id": "p",
		"domain_id":  nil,
	}
	strict := enforcer(t, rules, Options{EnforceScope: true}, "")
	for _, c := range []struct {
		rule  string
		creds Creds
		want  bool
	}{
		{"sys", system, true}, {"sys", domain, false}, {"sys", project, false},
		{"both", system, true}, {"both", domain, false}, {"both", project, true},
		{"any", system, true}, {"any", domain, true}, {"any", project, true},
	} {
		may(t, strict, c.want, c.rule, c.creds, nil)
		may(t, enforcer(t, rules, Options{}, ""), true, c.rule, c.creds, nil)
	}
	if why := may(t, strict, false, "sys", project, nil); why != "sys is for tokens of the scope system; this one "+
		"is for the scope project" {
		t.Error(why)
	}
	// A file's own text for a rule does not change its scopes.
	may(t, enforcer(t, rules, Options{EnforceScope: true}, "sys: role:x"), false, "sys", Creds{"roles": []string{"x"}},
		nil)
	may(t, enforcer(t, nil, Options{}, "s: system:all"), true, "s", system, nil)
	if _, err := New([]Rule{{Name: "a", Scopes: []string{"world"}}}, Options{}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func TestDeprecatedRules(t *testing.T) {
	renamed := []Rule{{Name: "new", Check: "role:new", Deprecated: &Deprecated{"old", "role:old"}}}
	for _, c := range []struct {
		name, file string
		enforce    bool
		allowed    string // of the roles new, old, own
		warns      bool
	}{
		{"both defaults", "", false, "new old", false},
		{"new defaults alone", "", true, "new", false},
		{"the new name in a file", "new: role:own", false, "own", false},
		{"the old name in a file", "old: role:own", false, "own", true},
		{"the old name in a file, new defaults alone", "old: role:own", true, "own", true},
		{"the old name says the old default", "old: role:old", false, "new old", true},
		{"the old name refers to the new", "old: rule:new", false, "new old", true},
		{"both names in a file", "old: role:old\nnew: role:own", false, "own", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := enforcer(t, renamed, Options{EnforceNewDefaults: c.enforce}, c.file)
			for _, role := range []string{"new", "old", "own"} {
				may(t, e, strings.Contains(c.allowed, role), "new", Creds{"roles": []string{role}}, nil)
			}
			if warned := len(e.Warnings()) > 0; warned != c.warns {
				t.Errorf("warnings: %q", e.Warnings())
			}
		})
	}
}

func TestWrongFilesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, text, why string }{
		{"a rule that is none", "# comment\na: role:x\n\nb: admin\n", `policy.yaml:4: rule "b": "admin" is no check`},
		{"a rule that is none, in JSON", "{\n\t\"a\": \"role:x\",\n\t\"b\": \"admin\"\n}",
			`policy.yaml:3: rule "b": "admin" is no check`},
		{"a cycle", "a: rule:b\nb: not rule:c\nc: role:x and rule:a\n",
			`policy.yaml:1: rule "a": it refers to itself: a → b → c → a`},
		{"a cycle through the default rule", "default: rule:absent\n",
			`policy.yaml:1: rule "default": it refers to itself: default → default`},
		{"a number", "a: 5\n", `policy.yaml:1: rule "a": it is no rule`},
		{"a truth", "{\"a\": true}", `policy.yaml:1: rule "a": it is no rule`},
		{"false, which oslo.policy takes for an empty rule", "a: false\n", `it is no rule`},
		{"a mapping", "a: {b: c}\n", `it is no rule`},
		{"lists too deep", "a: [[[x]]]\n", `it is no rule`},
		{"a list that holds itself", "a: &a [*a]\n", `it is no rule`},
		{"a mark that allows all", "a: !\n", `policy.yaml:1: rule "a": a bare ! is not text in YAML`},
		{"a character YAML has no use for", "a: @\n", `policy file`},
		{"a name that is no text", "5: role:x\n", `the name of a rule is no text`},
		{"a list of rules", "- a\n", `no mapping`},
		{"a list of rules, in JSON", "[]", `no mapping`},
		{"a text", "admin", `no mapping`},
		{"two documents", "a: role:x\n---\nb: role:y\n", `a second document begins at line 2`},
		{"broken JSON", "{\"a\": \"@\"", `policy file`},
		{"a merge with itself", "<<: &a {<<: *a}\n", `no mapping`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(nil, Options{}, write(t, t.TempDir(), "policy.yaml", c.text))
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
	if _, err := New(nil, Options{}, write(t, t.TempDir(), "p", strings.Repeat("#", longestFile+1))); err == nil ||
		!strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

func TestFilesThatSayNothing(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "{}", "null", "\n\n"} {
		e := enforcer(t, []Rule{{Name: "a", Check: "role:x"}}, Options{}, text)
		may(t, e, true, "a", Creds{"roles": []string{"x"}}, nil)
		may(t, e, false, "a", Creds{}, nil)
	}
}

func TestOfTwoEntriesTheLastCounts(t *testing.T) {
	for _, text := range []string{"a: role:x\nb: \"@\"\na: role:y\n", `{"a": "role:x", "a": "role:y"}`} {
		e := enforcer(t, nil, Options{}, text)
		may(t, e, false, "a", Creds{"roles": []string{"x"}}, nil)
		may(t, e, true, "a", Creds{"roles": []string{"y"}}, nil)
		if w := e.Warnings(); len(w) != 1 || !strings.Contains(w[0], `rule "a" stands at`) {
			t.Errorf("%q", w)
		}
	}
	// What << brings in is no second entry.
	e := enforcer(t, nil, Options{}, "<<: [{a: role:first, c: role:c}, {a: role:second}]\nc: role:own\n")
	may(t, e, true, "a", Creds{"roles": []string{"first"}}, nil)
	may(t, e, false, "a", Creds{"roles": []string{"second"}}, nil)
	may(t, e, true, "c", Creds{"roles": []string{"own"}}, nil)
	if w := e.Warnings(); len(w) > 0 {
		t.Errorf("%q", w)
	}
}

func TestReferenceToNothing(t *testing.T) {
	e := enforcer(t, nil, Options{}, "a: rule:absent or role:x\n")
	may(t, e, true, "a", Creds{"roles": []string{"x"}}, nil)
	may(t, e, false, "a", Creds{}, nil)
	if w := e.Warnings(); len(w) != 1 || !strings.Contains(w[0], `rule "a" refers to rule:absent, which nobody wrote`) {
		t.Errorf("%q", w)
	}
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	main := write(t, dir, "policy.yaml", "a: role:main\nb: role:main\n")
	write(t, dir, "policy.d/20-b.yaml", "a: role:twenty\n")
	write(t, dir, "policy.d/10-a.json", `{"a": "role:ten", "c": "role:ten"}`)
	write(t, dir, "policy.d/.hidden", "a: broken")
	write(t, dir, "policy.d/sub/x.yaml", "a: broken")
	e, err := New(nil, Options{}, main, filepath.Join(dir, "policy.d"))
	if err != nil {
		t.Fatal(err)
	}
	may(t, e, true, "a", Creds{"roles": []string{"twenty"}}, nil)
	may(t, e, true, "b", Creds{"roles": []string{"main"}}, nil)
	may(t, e, true, "c", Creds{"roles": []string{"ten"}}, nil)
	if w := e.Warnings(); len(w) > 0 {
		t.Errorf("%q", w)
	}
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "policy.yaml", "a: role:x\n")
	e, err := New(nil, Options{}, path, dir)
	if err != nil {
		t.Fatal(err)
	}
	x, y := Creds{"roles": []string{"x"}}, Creds{"roles": []string{"y"}}
	if changed, err := e.Reload(); changed || err != nil {
		t.Errorf("nothing changed: %v, %v", changed, err)
	}
	write(t, dir, "policy.yaml", "a: role:yy or role:y\n")
	may(t, e, true, "a", x, nil)
	if changed, err := e.Reload(); !changed || err != nil {
		t.Errorf("a change: %v, %v", changed, err)
	}
	may(t, e, true, "a", y, nil)
	write(t, dir, "policy.yaml", "a: broken")
	for range 2 {
		if changed, err := e.Reload(); changed || !fault.Is(err, fault.Invalid) {
			t.Errorf("a broken file: %v, %v", changed, err)
		}
		may(t, e, true, "a", y, nil)
	}
	write(t, dir, "policy.yaml", "a: role:y")
	write(t, dir, "z.yaml", "a: role:x")
	if changed, err := e.Reload(); !changed || err != nil {
		t.Errorf("a new file: %v, %v", changed, err)
	}
	may(t, e, true, "a", x, nil)
}

// No file brings the reader down, and what it takes can be asked.
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
				t.Fatalf("%q is lost", e.name)
			}
		}
	})
}
