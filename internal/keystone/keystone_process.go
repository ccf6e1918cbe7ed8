// Package keystone starts OpenStack's own identity service for tests: Debian's package keystone on 127.0.0.1, with
// SQLite and Fernet tokens in a temporary directory, and gone when the test ends. The first start on a
// machine takes some ten to twenty seconds, others half of that.
package keystone

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

const (
	patience = testenv.Patience // for one program to do its work
	password = "secret"
)

// Keystone is a running service. All names are in the domain Default, whose ID is default.
type Keystone struct {
	// http://127.0.0.1:port, without /v3; the catalog has it as public and internal endpoint
	URL                                    string
	AdminUser, AdminPassword, AdminProject string // the user also has the role admin on the system
	Region                                 string

	server *Server
}

// Start starts a Keystone. more contains groups and options for its configuration, such as "[token]\nexpiration =
// 20\n".
func Start(t testing.TB, more ...string) *Keystone {
	t.Helper()
	testenv.Need(t, "Keystone")
	for _, program := range []string{"keystone-manage", "keystone-wsgi-public"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: apt-get install keystone", program)
		}
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "keystone.conf")
	keys(t, filepath.Join(dir, "fernet"), filepath.Join(dir, "credential"))
	write(t, conf, configuration(dir)+strings.Join(more, "\n"))
	port := Free(t)
	k := &Keystone{URL: "http://127.0.0.1:" + port, AdminUser: "admin", AdminPassword: password, AdminProject: "admin",
		Region: "RegionOne"}
	k.database(t, dir, conf)
	cmd := exec.Command("keystone-wsgi-public", "--host", "127.0.0.1", "--port", port)
	cmd.Env = append(os.Environ(), "OS_KEYSTONE_CONFIG_FILES="+conf)
	k.server = Serve(t, cmd, dir, k.URL+"/v3")
	return k
}

// database creates Keystone's database in a directory, with the administrator and the endpoints of Keystone. The tables
// and the administrator take Keystone 14 s of processor time, and are made once on a machine.
func (k *Keystone) database(t testing.TB, dir, conf string) {
	t.Helper()
	const anyURL = "http://any-url"
	made := filepath.Join(dir, "made")
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	key := []string{configuration(""), k.AdminUser, k.AdminPassword, k.AdminProject, k.Region}
	if err := testenv.Fill(made, "keystone-manage", key, func() error {
		python(t, dir, "sqlite3.connect('keystone.db').execute('pragma journal_mode = wal')")
		run(t, dir, "keystone-manage", "--config-file", conf, "db_sync")
		run(t, dir, "keystone-manage", "--config-file", conf, "bootstrap", "--bootstrap-username", k.AdminUser,
			"--bootstrap-password", k.AdminPassword, "--bootstrap-project-name", k.AdminProject,
			"--bootstrap-public-url", anyURL, "--bootstrap-internal-url", anyURL+"/v3",
			"--bootstrap-region-id", k.Region)
		python(t, dir, "sqlite3.connect('keystone.db').execute('pragma wal_checkpoint(truncate)')")
		return os.Rename(filepath.Join(dir, "keystone.db"), filepath.Join(made, "keystone.db"))
	}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(made, "keystone.db"), filepath.Join(dir, "keystone.db")); err != nil {
		t.Fatal(err)
	}
	python(t, dir, fmt.Sprintf("c = sqlite3.connect('keystone.db'); c.execute(\"update endpoint set url = "+
		"replace(url, '%s', '%s')\"); c.commit()", anyURL, k.URL))
}

// python runs statements of Python on an SQLite database. Without a write-ahead log, a request of Keystone's can lock
// itself out of SQLite.
func python(t testing.TB, dir, statements string) {
	t.Helper()
	run(t, dir, "/usr/bin/python3", "-c", "import sqlite3; "+statements)
}

// configuration returns the configuration. The cache is that of the only process, which keeps it consistent. Without
// one, Keystone reads the roles of a user a dozen times for each request: the validation of a token takes a second of
// CPU time, instead of a hundredth.
func configuration(dir string) string {
	return fmt.Sprintf(`[DEFAULT]
use_stderr = true
[database]
connection = sqlite:///%[1]s/keystone.db
[fernet_tokens]
key_repository = %[1]s/fernet
[fernet_receipts]
key_repository = %[1]s/fernet
[credential]
key_repository = %[1]s/credential
[cache]
backend = dogpile.cache.memory
[identity]
password_hash_rounds = 4
[oslo_messaging_notifications]
driver = noop
`, dir)
}

// keys creates repositories of Fernet keys: 1 is used, 0 is the next.
func keys(t testing.TB, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"0", "1"} {
			secret := make([]byte, 32)
			if _, err := rand.Read(secret); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, name), base64.URLEncoding.EncodeToString(secret))
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, dir, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

// Stop kills the service. A second Stop does nothing.
func (k *Keystone) Stop() { k.server.Stop() }

// find returns the ID of the object with this name, and creates it if it does not exist.
func (k *Keystone) find(t testing.TB, kind, name string, more Doc) string {
	t.Helper()
	type thing struct{ ID string }
	listed := map[string]json.RawMessage{}
	k.Call(t, k.Admin(t), "GET", "/"+kind+"s?name="+url.QueryEscape(name), nil, http.StatusOK, &listed)
	var found []thing
	if err := json.Unmarshal(listed[kind+"s"], &found); err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		return found[0].ID
	}
	more["name"] = name
	made := map[string]thing{}
	k.Call(t, k.Admin(t), "POST", "/"+kind+"s", Doc{kind: more}, http.StatusCreated, &made)
	return made[kind].ID
}
