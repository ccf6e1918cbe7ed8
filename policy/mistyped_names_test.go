package policy

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// A rule in a file that no service has, and that no rule refers to, gets a warning with its place and a suggestion.
func TestMistypedNameIsReported(t *testing.T) {
	rules := []Rule{{Name: "placement:usages", Check: "role:reader"}}
	other := []Rule{{Name: "os_compute_api:servers:delete", Deprecated: &Deprecated{Name: "compute:delete"}}}
	names := Names(rules, other)
	for text, want := range map[string]string{
		"placement:usage: role:x\n": `policy.yaml:1: rule "placement:usage" has no effect: Berth has no rule of this ` +
			`name, and no rule refers to it; did you mean "placement:usages"?`,
		"# comment\nos_compute_api:server:delete: '!'\n":  `policy.yaml:2: rule "os_compute_api:server:delete" has no effect`,
		"entirely_different: '@'\n":                       `no rule refers to it`,
		"placement:usages: role:x\n":                      "",
		"os_compute_api:servers:delete: '@'\n":            "", // of another service
		"compute:delete: '@'\n":                           "", // a former name
		"default: '!'\n":                                  "",
		"helper: role:x\nplacement:usages: rule:helper\n": "",
	} {
		path := writeFile(t, t.TempDir(), "policy.yaml", text)
		e, err := New(rules, Options{Names: names}, path)
		if err != nil {
			t.Fatal(text, err)
		}
		got := strings.ReplaceAll(strings.Join(e.Warnings(), "\n"), filepath.Dir(path)+"/", "")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: warnings %q, want %q", text, got, want)
		}
		if strings.Contains(text, "different") && strings.Contains(got, "did you mean") {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// A rule without a value is refused: oslo.policy takes it for one that allows all requests.
func TestRuleWithoutValueIsRefused(t *testing.T) {
	for name, text := range map[string]string{"nothing": "# a\na:\n", "a tilde": "\na: ~\n", "null": "\na: null\n",
		"JSON": "{\n\"a\": null}"} {
		_, err := New(nil, Options{}, writeFile(t, t.TempDir(), "policy.yaml", text))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `policy.yaml:2: rule "a": it has no value`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Scopes are enforced unless enforce_scope = false, and setting the option gives a warning.
func TestScopesAreEnforcedByDefault(t *testing.T) {
	rules := []Rule{{Name: "a", Check: "@", Scopes: []string{"project"}}}
	system := Creds{"system": true}
	for _, c := range []struct {
		text    string
		allowed bool
		warning string
	}{
		{"", false, ""},
		{"[oslo_policy]\nenforce_scope = true\n", false, "this option is deprecated and the next release does not read it"},
		{"[oslo_policy]\nenforce_scope = false\n", true, "the next release denies a token"},
	} {
		e, err := Load(parseConfig(t, c.text), rules, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkAllow(t, e, c.allowed, "a", system, nil)
		checkAllow(t, e, true, "a", Creds{"project_id": "p"}, nil)
		got := strings.Join(e.Warnings(), "\n")
		if c.warning == "" && got != "" || !strings.Contains(got, c.warning) {
			t.Errorf("%q: warnings %q", c.text, got)
		}
	}
}
