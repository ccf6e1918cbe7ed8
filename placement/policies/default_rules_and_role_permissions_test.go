package policies

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/policy"
)

// original is a rule of OpenStack's Placement, as printed by testdata/capture_openstack_rules.py.
type original struct {
	Name, Check string
	Scopes      []string
	Deprecated  *policy.Deprecated
	Guards      []string
}

func originals(t *testing.T, name string) (rules []original) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules) != 38 {
		t.Fatalf("%s has %d rules", name, len(rules))
	}
	return rules
}

func TestDefaultsOfTheOriginal(t *testing.T) {
	for _, c := range []struct {
		file string
		ours []policy.Rule
		more int // rules of Zed that others refer to
	}{{"openstack_rules_newest.json", Rules(), 3}, {"openstack_rules_zed.json", Zed(), 0}} {
		ours := map[string]policy.Rule{}
		for _, r := range c.ours {
			ours[r.Name] = r
		}
		theirs := originals(t, c.file)
		if len(ours) != len(c.ours) || len(ours) != len(theirs)+c.more {
			t.Errorf("%s: %d rules, want %d as in the original", c.file, len(ours), len(theirs))
		}
		for _, want := range theirs {
			got := ours[want.Name]
			if got.Check != want.Check || strings.Join(got.Scopes, " ") != strings.Join(want.Scopes, " ") ||
				!reflect.DeepEqual(got.Deprecated, want.Deprecated) {
				t.Errorf("%s: %s is %+v, in the original %+v", c.file, want.Name, got, want)
			}
			if len(want.Guards) > 0 && got.Description != strings.Join(want.Guards, ", ") {
				t.Errorf("%s: %s guards %q, in the original %q", c.file, want.Name, got.Description, want.Guards)
			}
			if got.Description == "" {
				t.Errorf("%s: %s has no description", c.file, want.Name)
			}
		}
	}
}

// The defaults permit what the table in the package comment lists.
func TestPermissionsByRole(t *testing.T) {
	const reads, writes = ListProviders, UpdateInventory
	who := map[string]policy.Creds{
		"admin":          {"roles": []string{"admin"}, "project_id": "p"},
		"service":        {"roles": []string{"service"}, "project_id": "p"},
		"reader":         {"roles": []string{"reader"}, "project_id": "p"},
		"other project":  {"roles": []string{"reader"}, "project_id": "q"},
		"no roles":       {"roles": []string{}, "project_id": "p"},
		"system admin":   {"roles": []string{"admin", "reader"}, "project_id": nil, "system_scope": "all"},
		"system reader":  {"roles": []string{"reader"}, "project_id": nil, "system_scope": "all"},
		"system service": {"roles": []string{"service"}, "project_id": nil, "system_scope": "all"},
	}
	for _, c := range []struct {
		name      string
		rules     []policy.Rule
		opts      policy.Options
		rule, may string
	}{
		{"newest", Rules(), policy.Options{}, reads, "admin, service, system admin, system service"},
		{"newest", Rules(), policy.Options{}, writes, "admin, service, system admin, system service"},
		{"newest", Rules(), policy.Options{}, Usages, "admin, service, reader, system admin, system service"},
		{"newest", Rules(), policy.Options{}, Reshape, "admin, service, system admin, system service"},
		{"newest", Rules(), policy.Options{EnforceNewDefaults: true, EnforceScope: true}, reads, "admin, service"},
		{"newest", Rules(), policy.Options{EnforceNewDefaults: true, EnforceScope: true}, writes, "admin, service"},
		{"newest", Rules(), policy.Options{EnforceNewDefaults: true, EnforceScope: true}, Usages, "admin, service, reader"},
		{"newest", Rules(), policy.Options{EnforceNewDefaults: true, EnforceScope: true}, Reshape, "service"},
		{"zed", Zed(), policy.Options{}, reads, "admin, system admin, system reader"},
		{"zed", Zed(), policy.Options{}, writes, "admin, system admin"},
		{"zed", Zed(), policy.Options{}, Usages, "admin, reader, system admin, system reader"},
		{"zed", Zed(), policy.Options{}, Reshape, "admin, system admin"},
		{"zed", Zed(), policy.Options{EnforceNewDefaults: true, EnforceScope: true}, reads, "system admin, system reader"},
		{"zed", Zed(), policy.Options{EnforceNewDefaults: true, EnforceScope: true}, writes, "system admin"},
		{"zed", Zed(), policy.Options{EnforceNewDefaults: true, EnforceScope: true}, Usages,
			"reader, system admin, system reader"},
		{"zed", Zed(), policy.Options{EnforceNewDefaults: true, EnforceScope: true}, Reshape, "system admin"},
	} {
		e, err := policy.New(c.rules, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Warnings()) > 0 {
			t.Errorf("%q", e.Warnings())
		}
		allowed := map[string]bool{}
		for name := range strings.SplitSeq(c.may, ", ") {
			allowed[name] = true
		}
		for name, creds := range who {
			if ok, why := e.Allow(c.rule, creds, map[string]any{"project_id": "p"}); ok != allowed[name] {
				t.Errorf("%s %+v: %s for %s is %v (%s)", c.name, c.opts, c.rule, name, ok, why)
			}
		}
	}
}

// A policy file for Zed can refer to the base rules of Zed.
func TestPolicyFilesOfZed(t *testing.T) {
	path := t.TempDir() + "/policy.yaml"
	if err := os.WriteFile(path, []byte("placement:traits:list: rule:system_reader_api or role:auditor\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(Rules(), policy.Options{}, path)
	if err != nil || len(e.Warnings()) > 0 {
		t.Fatal(err, e.Warnings())
	}
	if ok, why := e.Allow(ListTraits, policy.Creds{"roles": []string{"reader"}, "system_scope": "all"}, nil); !ok {
		t.Error(why)
	}
}
