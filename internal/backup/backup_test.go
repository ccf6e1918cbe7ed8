package backup

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/sqldb"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is checks the kind of an error and a text in it.
func is(t *testing.T, err error, kind fault.Kind, text string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want %s with %q", err, kind, text)
	}
}

// machine is a machine with all parts in a directory.
type machine struct {
	t   *testing.T
	dir string
}

func newMachine(t *testing.T) machine {
	m := machine{t, t.TempDir()}
	for _, name := range []string{"placement", "compute", "network"} {
		m.do(name, "CREATE TABLE t (n INTEGER)")
	}
	must(t, os.MkdirAll(m.path("agent"), 0o700))
	m.write("agent/journal", "line 1\n")
	must(t, os.MkdirAll(m.path("images"), 0o700))
	m.write("images/a.json", `{"status": "active"}`)
	m.write("images/deleted.json", `{"status": "active"}`)
	m.write("images/a.data", "disk")
	m.write("images/b.partial", "half")
	m.write("images/d.deleted", "")
	return m
}

func (m machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m machine) write(name, text string) {
	m.t.Helper()
	must(m.t, os.WriteFile(m.path(name), []byte(text), 0o600))
}

func (m machine) read(name string) string {
	text, err := os.ReadFile(m.path(name))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// do opens a database, runs statements and closes it.
func (m machine) do(name string, statements ...string) {
	m.t.Helper()
	db := m.open(name)
	for _, s := range statements {
		_, err := db.ExecContext(m.t.Context(), s)
		must(m.t, err)
	}
	must(m.t, db.Close())
}

func (m machine) open(name string) *sql.DB {
	m.t.Helper()
	db, err := sql.Open("sqlite", "file:"+m.path(name+".db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)")
	must(m.t, err)
	return db
}

func (m machine) max(name string) (n int) {
	m.t.Helper()
	db := m.open(name)
	must(m.t, db.QueryRow("SELECT COALESCE(MAX(n), 0) FROM t").Scan(&n))
	must(m.t, db.Close())
	return n
}

func (m machine) parts() []Part {
	parts := []Part{{Name: Images, Path: m.path("images")}, {Name: Journal, Path: m.path("agent/journal")}}
	for _, name := range []Name{Placement, Compute, Network} {
		file := m.path(string(name) + ".db")
		parts = append(parts, Part{Name: name, Path: file, Database: sqldb.Location{Dialect: sqldb.SQLite, File: file}})
	}
	return parts
}

func (m machine) save(name string) (string, error) {
	dir := filepath.Join(m.dir, "backups", name)
	return dir, Make(context.Background(), dir, m.parts(), Manifest{}, io.Discard)
}

// TestSaveAndRestore restores everything, and finds what was there before beside it.
func TestSaveAndRestore(t *testing.T) {
	m := newMachine(t)
	m.do("compute", "INSERT INTO t VALUES (1)")
	dir, err := m.save("one")
	must(t, err)
	if _, err := m.save("one"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second backup of the same name: %v", err)
	}
	m.do("compute", "INSERT INTO t VALUES (2)")
	m.write("agent/journal", "line 1\nline 2\n")
	m.write("images/c.json", "{}")

	actions, err := Plan(dir, m.parts(), nil)
	must(t, err)
	if len(actions) != 5 || m.max("compute") != 2 {
		t.Fatalf("%v", actions)
	}
	var out strings.Builder
	must(t, Apply(t.Context(), actions, &out))
	for file, want := range map[string]string{"agent/journal": "line 1\n", "images/a.data": "disk",
		"images/a.json": `{"status": "active"}`, "images/d.deleted": ""} {
		if got := m.read(file); got != want {
			t.Errorf("%s has %q", file, got)
		}
	}
	got := m.read("images/b.partial") + m.read("images/c.json") + m.read("images/deleted.json")
	if strings.Count(got, "no such file") != 3 {
		t.Error(got)
	}
	if n := m.max("compute"); n != 1 {
		t.Errorf("compute has %d", n)
	}
	kept, err := filepath.Glob(m.path("before-restore-*/compute.db"))
	must(t, err)
	former := machine{t, filepath.Dir(kept[0])}
	if n := former.max("compute"); n != 2 || !strings.Contains(out.String(), former.dir) {
		t.Errorf("kept %d: %s", n, &out)
	}
}

// TestOneMoment saves databases while transactions write the same number into one after the other. The first one never
// lacks a number that the last one has, and is ahead by at most one.
func TestOneMoment(t *testing.T) {
	m := newMachine(t)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		var all []*sql.DB
		for _, name := range []string{"network", "compute", "placement"} {
			all = append(all, m.open(name))
		}
		for n := 1; ; n++ {
			select {
			case <-stop:
				for _, db := range all {
					must(t, db.Close())
				}
				return
			default:
			}
			for _, db := range all {
				if _, err := db.Exec("INSERT INTO t VALUES (?)", n); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for round := range 20 {
		dir, err := m.save(fmt.Sprint(round))
		must(t, err)
		saved := machine{t, dir}
		first, second, third := saved.max("network"), saved.max("compute"), saved.max("placement")
		if first < second || second < third || first-third > 1 {
			t.Errorf("round %d: %d, %d, %d", round, first, second, third)
		}
	}
	close(stop)
	writing.Wait()
}

// TestRefusedRestores checks that what is damaged, in use or foreign changes nothing.
func TestRefusedRestores(t *testing.T) {
	m := newMachine(t)
	dir, err := m.save("one")
	must(t, err)
	plan := func(only ...Name) error { _, err := Plan(dir, m.parts(), only); return err }
	must(t, plan())
	is(t, plan("pictures"), fault.Invalid, `has no "pictures"; it has journal, placement, compute, network, images`)
	_, err = Plan(m.dir, m.parts(), nil)
	is(t, err, fault.Invalid, "not a complete backup")
	_, err = Plan(dir, m.parts()[:2], nil)
	is(t, err, fault.Invalid, "has no placement")
	other := m.parts()
	other[3].Database.Dialect, other[3].Path = sqldb.MySQL, ""
	_, err = Plan(dir, other, []Name{Compute})
	is(t, err, fault.Invalid, "of sqlite")

	held := m.open("compute")
	must(t, held.Ping())
	user, err := os.Open(m.path("agent/journal"))
	must(t, err)
	actions, err := Plan(dir, m.parts(), nil)
	must(t, err)
	if who := users(m.path("agent/journal")); len(who) != 0 {
		t.Errorf("the own process counts: %v", who)
	}
	must(t, errors.Join(user.Close(), held.Close()))
	reader := exec.CommandContext(t.Context(), "tail", "-f", m.path("agent/journal"))
	lines, err := reader.StdoutPipe()
	must(t, err)
	must(t, reader.Start())
	_, err = lines.Read(make([]byte, 1)) // it has opened the file
	must(t, err)
	is(t, Apply(t.Context(), actions, io.Discard), fault.Conflict, fmt.Sprintf("process %d (tail)", reader.Process.Pid))
	must(t, reader.Process.Kill())
	_ = reader.Wait()

	image := filepath.Join(dir, "images", "a.data")
	must(t, os.WriteFile(image, []byte("dusk"), 0o600))
	is(t, plan(), fault.Invalid, "is not what was saved")
	must(t, plan(Compute, Journal))
	must(t, os.Remove(image))
	is(t, plan(Images), fault.Invalid, "lacks a file")
	is(t, Apply(t.Context(), actions, io.Discard), fault.Unavailable, "nothing has been changed")
	if kept, err := filepath.Glob(m.path("before-restore-*")); err != nil || len(kept) > 0 {
		t.Errorf("%v %v", kept, err)
	}

	var manifest Manifest
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	must(t, err)
	must(t, json.Unmarshal(text, &manifest))
	manifest.Parts[0].Files = map[string]File{"../../agent/journal": {}}
	text, err = json.Marshal(manifest)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600))
	is(t, plan(), fault.Invalid, "outside")
}

// TestInterruptedRestore checks that a service does not start on a database that a restore has moved away.
func TestInterruptedRestore(t *testing.T) {
	m := newMachine(t)
	must(t, os.Rename(m.path("compute.db"), m.path("compute.db"+sqldb.Restoring)))
	_, err := sqldb.Open(t.Context(), "sqlite:///"+m.path("compute.db"))
	is(t, err, fault.Conflict, "run `berth restore` again")
	if text := m.read("compute.db"); !strings.Contains(text, "no such file") {
		t.Errorf("it was created: %q", text)
	}
}

// TestFailedBackupLeavesNothing checks that a backup that cannot be finished does not exist.
func TestFailedBackupLeavesNothing(t *testing.T) {
	m := newMachine(t)
	must(t, os.WriteFile(m.path("network.db"), []byte(strings.Repeat("no database", 1000)), 0o600))
	dir, err := m.save("one")
	if err == nil {
		t.Error("a damaged database is saved")
	}
	left, err := filepath.Glob(dir + "*")
	if err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	must(t, os.MkdirAll(dir+partial, 0o700))
	_, err = m.save("one")
	is(t, err, fault.Conflict, "remove it when no")
}

// TestLockedDatabase checks that a writer that does not end is named, and that the others can write again at once.
func TestLockedDatabase(t *testing.T) {
	m := newMachine(t)
	db := m.open("placement")
	conn, err := db.Conn(t.Context())
	must(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must(t, err)
	began := time.Now()
	_, err = m.save("one")
	is(t, err, fault.Unavailable, "placement.db")
	if time.Since(began) < 9*time.Second {
		t.Errorf("gave up after %s", time.Since(began))
	}
	m.do("compute", "INSERT INTO t VALUES (1)")
	must(t, errors.Join(conn.Close(), db.Close()))
}

// TestServers saves the databases of MariaDB and PostgreSQL, and restores them.
func TestServers(t *testing.T) {
	testenv.Need(t, "MariaDB", "PostgreSQL")
	for _, server := range []*databases.Server{databases.MariaDB(t), databases.PostgreSQL(t)} {
		url := server.Database(t)
		at, err := sqldb.Locate(url)
		must(t, err)
		db, err := sqldb.Open(t.Context(), url)
		must(t, err)
		do := func(statement string) {
			t.Helper()
			must(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
				_, err := tx.Exec(t.Context(), statement)
				return err
			}))
		}
		do("CREATE TABLE t (n INTEGER NOT NULL PRIMARY KEY)")
		do("INSERT INTO t VALUES (1)")
		parts := []Part{{Name: Compute, Database: at}}
		t.Chdir(t.TempDir())
		must(t, Make(t.Context(), "one", parts, Manifest{}, io.Discard))
		do("INSERT INTO t VALUES (2)")
		actions, err := Plan("one", parts, nil)
		must(t, err)
		is(t, Apply(t.Context(), actions, io.Discard), fault.Conflict, "other connections")
		do("CREATE TABLE newer (n INTEGER NOT NULL PRIMARY KEY)")
		must(t, db.Close())
		is(t, Apply(t.Context(), actions, io.Discard), fault.Conflict, "keep them: newer; a newer Berth")
		db, err = sqldb.Open(t.Context(), url)
		must(t, err)
		do("DROP TABLE newer")
		must(t, db.Close())
		must(t, Apply(t.Context(), actions, io.Discard))
		db, err = sqldb.Open(t.Context(), url)
		must(t, err)
		var texts []string
		must(t, db.Read(t.Context(), func(tx *sqldb.Tx) (err error) {
			texts, err = sqldb.QueryTexts(t.Context(), tx, "SELECT n FROM t")
			return err
		}))
		if strings.Join(texts, " ") != "1" {
			t.Errorf("%s has %v", at.Dialect, texts)
		}
		kept, err := filepath.Glob("compute-before-restore-*.sql")
		must(t, err)
		text, err := os.ReadFile(kept[0])
		must(t, err)
		if !strings.Contains(string(text), "2") {
			t.Errorf("kept:\n%s", text)
		}
		at.Password, at.Database = "wrong", "none"
		err = Make(t.Context(), "two", []Part{{Name: Compute, Database: at}}, Manifest{}, io.Discard)
		if err == nil || strings.Contains(err.Error(), "wrong") {
			t.Errorf("a database that does not exist: %v", err)
		}
		must(t, db.Close())
	}
}
