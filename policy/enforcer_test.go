package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, dir, name, text string) string {
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

// enforcerFor returns an Enforcer with a file of this text.
func enforcerFor(t *testing.T, defaults []Rule, opts Options, text string) *Enforcer {
	t.Helper()
	e, err := New(defaults, opts, writeFile(t, t.TempDir(), "policy.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// checkAllow checks the answer of Allow and returns its reason.
func checkAllow(t *testing.T, e *Enforcer, want bool, rule string, creds Creds, target map[string]any) string {
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
	e := enforcerFor(t, defaults, Options{}, "power: &strong role:boss\nextra: *strong\n\"list\": [[\"role:a\", "+
		"\"role:b\"], \"role:c\"]\nnothing: ''\n")
	boss, reader := Creds{"roles": []string{"Boss"}}, Creds{"roles": []string{"reader"}}
	checkAllow(t, e, true, "read", reader, nil)
	checkAllow(t, e, true, "write", boss, nil)
	checkAllow(t, e, true, "extra", boss, nil)
	checkAllow(t, e, true, "nothing", Creds{}, nil)
	checkAllow(t, e, false, "list", Creds{"roles": []string{"a"}}, nil)
	checkAllow(t, e, true, "list", Creds{"roles": []string{"a", "b"}}, nil)
	checkAllow(t, e, true, "list", Creds{"roles": []string{"c"}}, nil)
	if why := checkAllow(t, e, false, "write", reader, nil); why != "write requires rule:power (default)" {
		t.Error(why)
	}
	if why := checkAllow(t, e, false, "power", reader, nil); !strings.Contains(why, "power requires role:boss (") ||
		!strings.Contains(why, "policy.yaml:1)") {
		t.Error(why)
	}
	if why := checkAllow(t, e, false, "absent", boss, nil); !strings.Contains(why, "there is no rule absent") {
		t.Error(why)
	}
}

func TestDefaultRuleReplacesMissingRules(t *testing.T) {
	e := enforcerFor(t, nil, Options{}, "default: role:x\na: rule:absent\n")
	checkAllow(t, e, true, "absent", Creds{"roles": []string{"x"}}, nil)
	checkAllow(t, e, true, "a", Creds{"roles": []string{"x"}}, nil)
	checkAllow(t, e, false, "absent", Creds{}, nil)
	other := enforcerFor(t, nil, Options{DefaultRule: "other"}, "default: \"@\"\nother: \"!\"\n")
	checkAllow(t, other, false, "absent", Creds{}, nil)
}

func TestTokenScopeIsEnforced(t *testing.T) {
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
	strict := enforcerFor(t, rules, Options{EnforceScope: true}, "")
	for _, c := range []struct {
		rule  string
		creds Creds
		want  bool
	}{
		{"sys", system, true}, {"sys", domain, false}, {"sys", project, false},
		{"both", system, true}, {"both", domain, false}, {"both", project, true},
		{"any", system, true}, {"any", domain, true}, {"any", project, true},
	} {
		checkAllow(t, strict, c.want, c.rule, c.creds, nil)
		checkAllow(t, enforcerFor(t, rules, Options{}, ""), true, c.rule, c.creds, nil)
	}
	if why := checkAllow(t, strict, false, "sys", project,
		nil); why != "sys requires a token of the scope system; this one "+
		"has the scope project" {
		t.Error(why)
	}
	// A rule in a file keeps the scopes of the rule in code.
	checkAllow(t, enforcerFor(t, rules, Options{EnforceScope: true}, "sys: role:x"), false, "sys",
		Creds{"roles": []string{"x"}},
		nil)
	checkAllow(t, enforcerFor(t, nil, Options{}, "s: system:all"), true, "s", system, nil)
	if _, err := New([]Rule{{Name: "a", Scopes: []string{"world"}}}, Options{}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func TestDeprecatedRulesAreHonoured(t *testing.T) {
	renamed := []Rule{{Name: "new", Check: "role:new", Deprecated: &Deprecated{"old", "role:old"}}}
	for _, c := range []struct {
		name, file string
		enforce    bool
		allowed    string // of the roles new, old, own
		warns      bool
	}{
		{"no file, old defaults allowed", "", false, "new old", false},
		{"no file, new defaults enforced", "", true, "new", false},
		{"the new name in a file", "new: role:own", false, "own", false},
		{"the old name in a file", "old: role:own", false, "own", true},
		{"the old name in a file, new defaults enforced", "old: role:own", true, "own", true},
		{"the old name repeats the old default", "old: role:old", false, "new old", true},
		{"the old name refers to the new", "old: rule:new", false, "new old", true},
		{"both names in a file", "old: role:old\nnew: role:own", false, "own", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := enforcerFor(t, renamed, Options{EnforceNewDefaults: c.enforce}, c.file)
			for _, role := range []string{"new", "old", "own"} {
				checkAllow(t, e, strings.Contains(c.allowed, role), "new", Creds{"roles": []string{role}}, nil)
			}
			if warned := len(e.Warnings()) > 0; warned != c.warns {
				t.Errorf("warnings: %q, want some: %v", e.Warnings(), c.warns)
			}
		})
	}
}

func TestLastOfDuplicateEntriesIsUsed(t *testing.T) {
	for _, text := range []string{"a: role:x\nb: \"@\"\na: role:y\n", `{"a": "role:x", "a": "role:y"}`} {
		e := enforcerFor(t, nil, Options{}, text)
		checkAllow(t, e, false, "a", Creds{"roles": []string{"x"}}, nil)
		checkAllow(t, e, true, "a", Creds{"roles": []string{"y"}}, nil)
		if w := e.Warnings(); len(w) != 1 || !strings.Contains(w[0], `rule "a" is also at`) {
			t.Errorf("%q", w)
		}
	}
	// An entry merged by << is not a duplicate.
	e := enforcerFor(t, nil, Options{}, "<<: [{a: role:first, c: role:c}, {a: role:second}]\nc: role:own\n")
	checkAllow(t, e, true, "a", Creds{"roles": []string{"first"}}, nil)
	checkAllow(t, e, false, "a", Creds{"roles": []string{"second"}}, nil)
	checkAllow(t, e, true, "c", Creds{"roles": []string{"own"}}, nil)
	if w := e.Warnings(); len(w) > 0 {
		t.Errorf("%q", w)
	}
}

func TestReferenceToMissingRuleDenies(t *testing.T) {
	e := enforcerFor(t, nil, Options{}, "a: rule:absent or role:x\n")
	checkAllow(t, e, true, "a", Creds{"roles": []string{"x"}}, nil)
	checkAllow(t, e, false, "a", Creds{}, nil)
	if w := e.Warnings(); len(w) != 1 || !strings.Contains(w[0], `rule "a" refers to rule:absent, which does not exist`) {
		t.Errorf("%q", w)
	}
}

func TestFilesOfDirectoryAreReadInOrder(t *testing.T) {
	dir := t.TempDir()
	main := writeFile(t, dir, "policy.yaml", "a: role:main\nb: role:main\n")
	writeFile(t, dir, "policy.d/20-b.yaml", "a: role:twenty\n")
	writeFile(t, dir, "policy.d/10-a.json", `{"a": "role:ten", "c": "role:ten"}`)
	writeFile(t, dir, "policy.d/.hidden", "a: broken")
	writeFile(t, dir, "policy.d/sub/x.yaml", "a: broken")
	e, err := New(nil, Options{}, main, filepath.Join(dir, "policy.d"))
	if err != nil {
		t.Fatal(err)
	}
	checkAllow(t, e, true, "a", Creds{"roles": []string{"twenty"}}, nil)
	checkAllow(t, e, true, "b", Creds{"roles": []string{"main"}}, nil)
	checkAllow(t, e, true, "c", Creds{"roles": []string{"ten"}}, nil)
	if w := e.Warnings(); len(w) > 0 {
		t.Errorf("%q", w)
	}
}

func TestReloadReadsChangedFiles(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, dir, "policy.yaml", "a: role:x\n")
	e, err := New(nil, Options{}, path, dir)
	if err != nil {
		t.Fatal(err)
	}
	x, y := Creds{"roles": []string{"x"}}, Creds{"roles": []string{"y"}}
	if changed, err := e.Reload(); changed || err != nil {
		t.Errorf("nothing changed: %v, %v", changed, err)
	}
	writeFile(t, dir, "policy.yaml", "a: role:yy or role:y\n")
	checkAllow(t, e, true, "a", x, nil)
	if changed, err := e.Reload(); !changed || err != nil {
		t.Errorf("a change: %v, %v", changed, err)
	}
	checkAllow(t, e, true, "a", y, nil)
	writeFile(t, dir, "policy.yaml", "a: broken")
	for range 2 {
		if changed, err := e.Reload(); changed || !fault.Is(err, fault.Invalid) {
			t.Errorf("a broken file: %v, %v", changed, err)
		}
		checkAllow(t, e, true, "a", y, nil)
	}
	writeFile(t, dir, "policy.yaml", "a: role:y")
	writeFile(t, dir, "z.yaml", "a: role:x")
	if changed, err := e.Reload(); !changed || err != nil {
		t.Errorf("a new file: %v, %v", changed, err)
	}
	checkAllow(t, e, true, "a", x, nil)
}
