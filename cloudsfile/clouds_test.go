package cloudsfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

var red = Cloud{Name: "red", Type: "http_basic", Auth: []Option{{"username", "ann"}, {"password", "12: #'\"x"},
	{"project_name", ""}}, Options: []Option{{"compute_endpoint_override", "http://127.0.0.1:8770/compute/v2.1"}}}

// Clouds are added, replaced and removed; comments and the clouds of others stay.
func TestMerge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clouds.yaml")
	want := func(changed bool, err error, expected bool, text string) {
		t.Helper()
		got, _ := os.ReadFile(path)
		if changed != expected || err != nil || string(got) != text {
			t.Errorf("changed %v, %v:\n%s\nwant:\n%s", changed, err, got, text)
		}
	}
	entry := func(user string) string {
		return "  red:\n    auth_type: http_basic\n    auth:\n      username: " + user + "\n      password: '12: #''\"x'\n" +
			"    compute_endpoint_override: http://127.0.0.1:8770/compute/v2.1\n"
	}
	changed, err := Merge(path, red)
	want(changed, err, true, "clouds:\n"+entry("ann"))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	changed, err = Merge(path, red)
	want(changed, err, false, "clouds:\n"+entry("ann"))
	changed, err = Remove(path, "red")
	want(changed, err, true, "")
	if _, err := os.Stat(path); err == nil {
		t.Error("the empty file remains")
	}
	others := "# mine\nclouds:\n  blue: # at work\n    profile: vendor\n"
	if err := os.WriteFile(path, []byte(others), 0o640); err != nil {
		t.Fatal(err)
	}
	changed, err = Merge(path, red)
	want(changed, err, true, others+entry("ann"))
	bob := red
	bob.Auth = append([]Option{{"username", "bob"}}, red.Auth[1:]...)
	changed, err = Merge(path, bob)
	want(changed, err, true, others+entry("bob"))
	changed, err = Remove(path, "red", "green")
	want(changed, err, true, others)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// A file that is not of the form of clouds.yaml is not changed, and its text is not in the error.
func TestMergeRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clouds.yaml")
	for _, text := range []string{"clouds: [secret", "- secret", "clouds: [secret]", "clouds: secret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Merge(path, red)
		got, _ := os.ReadFile(path)
		if !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "secret") || string(got) != text {
			t.Errorf("%q: %v, %q", text, err, got)
		}
	}
}
