package identity

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/openberth/berth/fault"
)

// userLine returns a line of a user file with the fastest hash.
func userLine(t *testing.T, name, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return name + ":" + string(hash) + "\n"
}

func writeUserFile(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// asUser returns a request with a name and a password.
func asUser(name, password string) *http.Request {
	r := httptest.NewRequest("GET", "/v2.1/servers", nil)
	r.SetBasicAuth(name, password)
	return r
}

func TestHTTPBasicRoles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	// The hash of "pässword" in the form that Apache's htpasswd -B writes.
	apache := strings.Replace(userLine(t, "apache", "pässword"), "$2a$", "$2y$", 1)
	writeUserFile(t, path, "# accounts\n\n", userLine(t, "root", "r"), userLine(t, "cmp1", "c"), userLine(t, "bob", "b"),
		apache)
	b, err := NewHTTPBasic(BasicOptions{File: path, Admins: []string{"root"}, Services: []string{"cmp1"},
		Projects: map[string]string{"bob": "web"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time from the cache
		for _, c := range []struct{ name, password, project, roles string }{
			{"root", "r", "root", "admin member reader"}, {"cmp1", "c", "cmp1", "service"},
			{"bob", "b", "web", "member reader"}, {"apache", "pässword", "apache", "member reader"},
		} {
			id, err := b.Authenticate(asUser(c.name, c.password))
			if got := strings.Join(id.Roles, " "); err != nil || id.User != c.name || id.Project != c.project || got != c.roles {
				t.Errorf("%s: %+v, %v", c.name, id, err)
			}
		}
		for _, r := range []*http.Request{asUser("root", "c"), asUser("root", ""), asUser("", "r"), asUser("carol", "r"),
			asUser("root", strings.Repeat("r", 2000)), httptest.NewRequest("GET", "/", nil)} {
			if _, err := b.Authenticate(r); !fault.Is(err, fault.Forbidden) {
				t.Errorf("%v: %v", r.Header, err)
			}
		}
	}
}

// A change of the file is used. A file that is not valid changes nothing, and a removed file refuses everybody.
func TestHTTPBasicFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	writeUserFile(t, path, userLine(t, "bob", "old"))
	var log bytes.Buffer
	b, err := NewHTTPBasic(BasicOptions{File: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	b.now = func() time.Time { return now }
	may := func(name, password string, want bool) {
		t.Helper()
		now = now.Add(2 * userFileInterval)
		if _, err := b.Authenticate(asUser(name, password)); (err == nil) != want {
			t.Errorf("%s with %q: %v", name, password, err)
		}
	}
	may("bob", "old", true)
	writeUserFile(t, path, userLine(t, "bob", "new"), userLine(t, "carol", "c"))
	may("bob", "old", false) // although it is in the cache
	may("bob", "new", true)
	may("carol", "c", true)
	writeUserFile(t, path, "bob\n")
	may("bob", "new", true)
	if !strings.Contains(log.String(), path+":1") {
		t.Errorf("the log does not name the line: %s", log.String())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	may("bob", "new", false)
	writeUserFile(t, path, userLine(t, "bob", "new"))
	may("bob", "new", true)
	may("carol", "c", false)
}

// A new account and a new password are accepted at once, also after they were refused: the agent of a new host ends
// when its account is wrong. The old password is refused within userFileInterval.
func TestHTTPBasicAcceptsNewAccountsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	writeUserFile(t, path, userLine(t, "bob", "old"))
	b, err := NewHTTPBasic(BasicOptions{File: path, Roles: path + ".roles", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	b.now = func() time.Time { return now }
	may := func(name, password string, want bool) (id Identity) {
		t.Helper()
		id, err := b.Authenticate(asUser(name, password))
		if (err == nil) != want {
			t.Errorf("%s with %q: %v", name, password, err)
		}
		return id
	}
	may("bob", "old", true)
	may("host", "h", false)
	writeUserFile(t, path+".roles", "host:hosts:service")
	writeUserFile(t, path, userLine(t, "bob", "new"), userLine(t, "host", "h"))
	if id := may("host", "h", true); id.Project != "hosts" || !slices.Contains(id.Roles, "service") {
		t.Errorf("%+v", id)
	}
	may("bob", "new", true)
	now = now.Add(userFileInterval)
	may("bob", "old", false)
}

func TestHTTPBasicFileErrors(t *testing.T) {
	good := userLine(t, "bob", "b")
	for name, c := range map[string]struct{ text, want string }{
		"no hash":      {good + "carol\n", ":2: the line is not NAME:HASH"},
		"no name":      {":" + good, ":1: the line is not NAME:HASH"},
		"MD5":          {"carol:$apr1$x$y\n", ":1: the password of carol is not hashed with bcrypt"},
		"plain text":   {"\n#\ncarol:secret\n", ":3: the password of carol is not hashed with bcrypt"},
		"name twice":   {good + good, ":2: account bob is in the file twice"},
		"rest of line": {strings.TrimSpace(good) + ":x\n", ":1: the password of bob is not"},
	} {
		path := filepath.Join(t.TempDir(), "htpasswd")
		writeUserFile(t, path, c.text)
		_, err := NewHTTPBasic(BasicOptions{File: path})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), path+c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password", name)
		}
	}
	if _, err := NewHTTPBasic(BasicOptions{File: "/nowhere/htpasswd"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a missing file: %v", err)
	}
}

func FuzzUserFile(f *testing.F) {
	f.Add([]byte("bob:$2y$05$" + strings.Repeat("a", 53) + "\n#x\n\ncarol:x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		accounts, err := ParseUsers("f", text)
		for name, hash := range accounts {
			if err == nil && (name == "" || !bytes.Contains(text, append([]byte(name+":"), hash...))) {
				t.Errorf("%q has %q", name, hash)
			}
		}
	})
}

// The roles file decides about the accounts that it has, and its changes are used. A file that is not valid, or that
// disappears, changes nothing. An account is not accepted without its roles when both files are new.
func TestHTTPBasicRolesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	roles := path + ".roles"
	writeUserFile(t, path, userLine(t, "root", "r"), userLine(t, "bob", "b"), userLine(t, "eve", "e"))
	writeUserFile(t, roles, "# roles\n\nbob:web:reader\nroot:ops:admin,service\n")
	var log bytes.Buffer
	b, err := NewHTTPBasic(BasicOptions{File: path, Roles: roles, Admins: []string{"bob"},
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	b.now = func() time.Time { return now }
	want := func(name, password, project, roles string) {
		t.Helper()
		id, err := b.Authenticate(asUser(name, password))
		if got := strings.Join(id.Roles, " "); err != nil || id.Project != project || got != roles {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
	want("bob", "b", "web", "reader") // not admin, as the option says
	want("root", "r", "ops", "admin service member reader")
	want("eve", "e", "eve", "member reader")
	later := func(text string) {
		now = now.Add(2 * time.Second)
		writeUserFile(t, roles, text)
	}
	later("bob:web:member\nroot:ops:admin\neve:green:service\n")
	want("bob", "b", "web", "member reader")
	want("eve", "e", "green", "service")
	later("bob:web:admin\nbob:web:admin\n")
	want("bob", "b", "web", "member reader")
	if !strings.Contains(log.String(), roles+":2: account bob is in the file twice") {
		t.Error(log.String())
	}
	now = now.Add(2 * time.Second)
	if err := os.Remove(roles); err != nil {
		t.Fatal(err)
	}
	want("bob", "b", "web", "member reader")
	now = now.Add(2 * time.Second)
	want("bob", "b", "web", "member reader")
	if n := strings.Count(log.String(), "no such file"); n != 1 {
		t.Errorf("the missing file is logged %d times: %s", n, log.String())
	}
	later("bob:web:reader\n")
	want("bob", "b", "web", "reader")
}

func TestParseRolesRefuses(t *testing.T) {
	for _, text := range []string{"bob", "bob:web", "bob::member", ":web:member", "bob:web:", "bob:web:member,",
		"bob:web:mem ber", "bob:w b:member", "bob:web:member:x", "bob:web:member\nbob:web:reader"} {
		if grants, err := ParseRoles("f", []byte(text)); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(
			fault.TextOf(err), "f:") {
			t.Errorf("%q: %v %v", text, grants, err)
		}
	}
}
