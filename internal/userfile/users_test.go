package userfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/fault"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An account is added, changed and removed. Comments, and lines of others, stay.
func TestUsers(t *testing.T) {
	dir := t.TempDir()
	f := Files{filepath.Join(dir, "htpasswd"), filepath.Join(dir, "roles")}
	must(t, os.WriteFile(f.Roles, []byte("# ours\nold:x:reader"), 0o600))
	must(t, f.Add(User{Name: "ann", Project: "red", Roles: []string{"member"}}, "secret"))
	must(t, f.Add(User{Name: "root", Project: "admin", Roles: []string{"admin", "service"}}, "topsecret"))
	if err := f.Add(User{Name: "ann", Project: "blue", Roles: []string{"admin"}}, "x"); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
	want := func(text string) {
		t.Helper()
		list, err := f.List()
		if got := fmt.Sprint(list); err != nil || got != text {
			t.Errorf("%s, %v; want %s", got, err, text)
		}
	}
	want("[{ann red [member]} {root admin [admin service]}]")
	for password, right := range map[string]bool{"secret": true, "topsecret": false, "": false} {
		if ok, err := f.Matches("ann", password); ok != right || err != nil {
			t.Errorf("%q: %v %v", password, ok, err)
		}
	}
	must(t, f.Set(User{Name: "ann", Project: "blue", Roles: []string{"reader"}}))
	must(t, f.SetPassword("ann", "other"))
	if ok, err := f.Matches("ann", "other"); !ok || err != nil {
		t.Error(ok, err)
	}
	want("[{ann blue [reader]} {root admin [admin service]}]")
	if err := f.Remove("root", "eve"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	want("[{ann blue [reader]} {root admin [admin service]}]")
	for _, err := range []error{f.Set(User{Name: "eve", Project: "p", Roles: []string{"admin"}}),
		f.SetPassword("eve", "x")} {
		if !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	}
	must(t, f.Remove("root"))
	if text, err := os.ReadFile(f.Roles); err != nil || string(text) != "# ours\nold:x:reader\nann:blue:reader\n" {
		t.Errorf("%q %v", text, err)
	}
	if text, err := os.ReadFile(f.Users); err != nil || strings.Contains(string(text), "root") {
		t.Errorf("%q %v", text, err)
	}
}

// TestInterruptedRemoval removes the roles of an account whose line in the user file is gone.
func TestInterruptedRemoval(t *testing.T) {
	dir := t.TempDir()
	f := Files{filepath.Join(dir, "htpasswd"), filepath.Join(dir, "roles")}
	must(t, f.Add(User{Name: "ann", Project: "red", Roles: []string{"member"}}, "secret"))
	must(t, os.WriteFile(f.Users, nil, 0o600))
	must(t, f.Remove("ann"))
	if text, err := os.ReadFile(f.Roles); err != nil || len(text) > 0 {
		t.Errorf("%q %v", text, err)
	}
	if err := f.Remove("ann"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// Names and passwords that the files cannot hold are refused, and files that are not valid are not changed.
func TestUsersRefused(t *testing.T) {
	dir := t.TempDir()
	f := Files{filepath.Join(dir, "htpasswd"), filepath.Join(dir, "roles")}
	for _, c := range [][2]string{{"", "x"}, {"a:b", "x"}, {"a b", "x"}, {"#a", "x"}, {"a\nb", "x"}, {"a", ""},
		{"a", strings.Repeat("x", 73)}} {
		if err := f.Add(User{Name: c[0], Project: "p", Roles: []string{"member"}}, c[1]); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", c, err)
		}
	}
	for _, u := range []User{{Name: "a", Project: "p q", Roles: []string{"member"}}, {Name: "a", Project: "p"},
		{Name: "a", Project: "p", Roles: []string{"a role"}}} {
		if err := f.Add(u, "x"); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", u, err)
		}
		if list, err := f.List(); len(list) != 0 || err != nil {
			t.Errorf("%v: %v %v", u, list, err)
		}
	}
	must(t, os.WriteFile(f.Users, []byte("bob:plain\n"), 0o600))
	if err := f.Add(User{Name: "a", Project: "p", Roles: []string{"member"}}, "x"); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	if text, err := os.ReadFile(f.Users); err != nil || string(text) != "bob:plain\n" {
		t.Errorf("%q %v", text, err)
	}
}

// Several processes that change the files at the same time lose no account, and a changed file keeps its mode.
func TestUsersAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	f := Files{filepath.Join(dir, "htpasswd"), filepath.Join(dir, "roles")}
	must(t, f.Add(User{Name: "first", Project: "p", Roles: []string{"member"}}, "x"))
	must(t, os.Chmod(f.Users, 0o604))
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			if err := f.Add(User{Name: fmt.Sprint("u", i), Project: "p", Roles: []string{"member"}}, "x"); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	list, err := f.List()
	if err != nil || len(list) != 9 || slices.ContainsFunc(list, func(u User) bool { return u.Project != "p" }) {
		t.Errorf("%v %v", list, err)
	}
	for file, mode := range map[string]os.FileMode{f.Users: 0o604, f.Roles: 0o640} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", file, info, err)
		}
	}
}
