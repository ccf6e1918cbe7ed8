package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/compute/lifecycle"
	computestore "github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/internal/backup"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	networkstore "github.com/openberth/berth/network/store"
	placementstore "github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/sqldb"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine is a machine whose services run: their databases are open.
type machine struct {
	t    *testing.T
	dir  string
	open map[backup.Name]*sqldb.DB
	urls map[backup.Name]string
}

const serverID, imageID = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"

// newMachine returns a machine with a provider, a server, a network, an image and a journal. Databases are in files,
// except those with a URL.
func newMachine(t *testing.T, urls map[backup.Name]string) *machine {
	m := &machine{t: t, dir: testenv.MemoryDir(t), open: map[backup.Name]*sqldb.DB{}, urls: urls}
	for _, name := range []backup.Name{backup.Placement, backup.Compute, backup.Network} {
		db, err := sqldb.Open(t.Context(), m.url(name))
		must(t, err)
		m.open[name] = db
		t.Cleanup(func() { m.stop(name) })
	}
	placement, err := placementstore.Open(t.Context(), m.open[backup.Placement])
	must(t, err)
	must(t, placement.Sync(t.Context()))
	_, _, err = placement.CreateProvider(t.Context(), serverID, "cmp1", "")
	must(t, err)
	compute, err := computestore.Open(t.Context(), m.open[backup.Compute])
	must(t, err)
	server, _ := lifecycle.Next(lifecycle.Server{ID: serverID, Name: "web"}, lifecycle.Created{}, time.Unix(1, 0))
	must(t, compute.Create(t.Context(), server))
	network, err := networkstore.Open(t.Context(), m.open[backup.Network])
	must(t, err)
	must(t, network.Write(t.Context(), func(tx *networkstore.Tx) error {
		return networkstore.Put(t.Context(), tx, &networkstore.Network{Base: networkstore.Base{ID: "net"}})
	}))
	must(t, os.Mkdir(m.path("images"), 0o700))
	m.write("images/"+imageID+".json", `{"version": 1, "id": "`+imageID+`", "status": "queued"}`)
	j, err := journal.Open(m.path("agent"))
	must(t, err)
	must(t, errors.Join(j.Write(journal.Put(serverID, nil)), j.Close()))
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) write(name, text string) {
	m.t.Helper()
	must(m.t, os.WriteFile(m.path(name), []byte(text), 0o600))
}

func (m *machine) url(name backup.Name) string {
	if url := m.urls[name]; url != "" {
		return url
	}
	return "sqlite:///" + m.path(string(name)+".db")
}

func (m *machine) parts() []backup.Part {
	parts := []backup.Part{{Name: backup.Journal, Path: m.path("agent/journal")},
		{Name: backup.Images, Path: m.path("images")}}
	for _, name := range []backup.Name{backup.Placement, backup.Compute, backup.Network} {
		at, err := sqldb.Locate(m.url(name))
		must(m.t, err)
		parts = append(parts, backup.Part{Name: name, Path: at.File, Database: at})
	}
	return parts
}

// stop stops the service of a database, if it runs. A service whose file is replaced under it saves its content, which
// changes the state.
func (m *machine) stop(name backup.Name) {
	m.t.Helper()
	if db := m.open[name]; db != nil {
		delete(m.open, name)
		must(m.t, db.Close())
	}
}

// do changes a database as its service does.
func (m *machine) do(name backup.Name, statement string, args ...any) {
	m.t.Helper()
	must(m.t, m.open[name].Write(m.t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(m.t.Context(), statement, args...)
		return err
	}))
}

// contents returns all files of the machine, as far as databases do not change their own.
func (m *machine) contents() string {
	var all bytes.Buffer
	must(m.t, filepath.WalkDir(m.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "-shm") {
			return err
		}
		text, err := os.ReadFile(path)
		all.WriteString(path + "\n" + string(text) + "\n")
		return err
	}))
	return all.String()
}

// check checks the machine, and that nothing of it has changed and no copy remains.
func (m *machine) check() Report {
	m.t.Helper()
	work, before := m.t.TempDir(), m.contents()
	r, err := Check(m.t.Context(), Options{Program: "this", Parts: m.parts(), WorkDir: work, BackupDir: m.dir})
	must(m.t, err)
	if m.contents() != before {
		m.t.Error("the check has changed the state")
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		m.t.Errorf("left in the work directory: %v %v", left, err)
	}
	return r
}

// records returns how many records a part of a machine has. A server also counts against the quotas of its project.
func records(part backup.Name) int {
	if part == backup.Compute {
		return 2
	}
	return 1
}

// of returns the result of a part.
func (r Report) of(name backup.Name) Part {
	for _, p := range r.Parts {
		if p.Name == name {
			return p
		}
	}
	return Part{}
}

// text returns the report as people see it.
func text(t *testing.T, r Report) string {
	t.Helper()
	var out strings.Builder
	must(t, r.Print(&out))
	return out.String()
}

// A machine of this program is ready; every record is read, and nothing is changed while services run.
func TestReady(t *testing.T) {
	m := newMachine(t, nil)
	r := m.check()
	if !r.Ready || len(r.Problems) > 0 || len(r.Parts) != 5 {
		t.Fatal(text(t, r))
	}
	for _, p := range r.Parts {
		if p.Records != records(p.Name) {
			t.Errorf("%s has %d records", p.Name, p.Records)
		}
	}
	if out := text(t, r); !strings.Contains(out, "schema 422ece571366: records read: 1, unreadable: 0") ||
		!strings.Contains(out, "\nready for an upgrade") {
		t.Error(out)
	}
	encoded, err := json.Marshal(r)
	must(t, err)
	if strings.Contains(string(encoded), "null") {
		t.Errorf("a list is null: %s", encoded)
	}
}

// A database of fewer migrations is migrated on its copy.
func TestOlderSchema(t *testing.T) {
	m := newMachine(t, nil)
	m.do(backup.Compute, "DROP TABLE compute_group_members")
	m.do(backup.Compute, "DELETE FROM compute_schema WHERE version = (SELECT MAX(version) FROM compute_schema)")
	r := m.check()
	p := r.of(backup.Compute)
	if before, _, _ := strings.Cut(p.Before, " "); !r.Ready || p.Before == p.After || p.After == "" || p.Records != 2 ||
		strings.HasPrefix(p.After, before+" ") {
		t.Errorf("%+v", p)
	}
}

// What prevents an upgrade is named with its record and place, and the other parts are checked all the same.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		part  backup.Name
		do    func(m *machine)
		texts []string
	}{
		"damaged server": {backup.Compute, func(m *machine) {
			m.do(backup.Compute, `UPDATE compute_servers SET record = '{"id":"`+serverID+`","new":1}'`)
		}, []string{"server " + serverID, "new"}},
		"damaged flavor": {backup.Compute, func(m *machine) {
			m.do(backup.Compute, `INSERT INTO compute_flavors VALUES ('f', 'f', '', 'two', 1, 1, 0, 0, 1, 1, 0)`)
		}, []string{"row f of compute_flavors"}},
		"damaged host": {backup.Compute, func(m *machine) {
			m.do(backup.Compute, `INSERT INTO compute_hosts (name, provider, revision, seen, reports, report) VALUES
				('cmp1', '', 0, 1, 1, '{"host": "cmp2"}')`)
		}, []string{"host cmp1", "cmp2"}},
		"damaged network": {backup.Network, func(m *machine) {
			m.do(backup.Network, `UPDATE network_networks SET record = '{"id":'`)
		}, []string{"record net of networks"}},
		"record of another network": {backup.Network, func(m *machine) {
			m.do(backup.Network, `UPDATE network_networks SET id = 'other'`)
		}, []string{"record other of networks", `"net"`}},
		"damaged image": {backup.Images, func(m *machine) {
			m.write("images/"+imageID+".json", "{")
		}, []string{imageID}},
		"damaged journal": {backup.Journal, func(m *machine) {
			m.write("agent/journal", "nonsense\n{}\n")
		}, []string{"journal"}},
		"newer schema": {backup.Compute, func(m *machine) {
			m.do(backup.Compute, "INSERT INTO compute_schema (version, name, applied_at) VALUES (99, 'later', '')")
		}, []string{"later", "a newer Berth wrote this database"}},
		"database of another program": {backup.Network, func(m *machine) {
			m.do(backup.Network, "UPDATE network_schema SET name = 'x' WHERE version = 2")
		}, []string{"another program"}},
		"old Placement": {backup.Placement, func(m *machine) {
			m.do(backup.Placement, "UPDATE alembic_version SET version_num = 'b5c396305c25'")
		}, []string{"b5c396305c25", "placement-manage db sync"}},
		"not a database": {backup.Network, func(m *machine) {
			m.stop(backup.Network)
			m.write("network.db", strings.Repeat("no database", 1000))
		}, []string{"network.db", "not a database"}},
		"a directory": {backup.Compute, func(m *machine) {
			m.stop(backup.Compute)
			must(m.t, os.Rename(m.path("compute.db"), m.path("moved")))
			must(m.t, os.Mkdir(m.path("compute.db"), 0o700))
		}, []string{"compute.db"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, nil)
			c.do(m)
			r := m.check()
			p := r.of(c.part)
			found := strings.Join(append(p.Unreadable, p.Error), "\n")
			for _, want := range c.texts {
				if !strings.Contains(found, want) {
					t.Errorf("no %q in %q", want, found)
				}
			}
			if r.Ready || len(r.Problems) != 1 || len(r.Parts) != 5 {
				t.Error(text(t, r))
			}
			for _, other := range r.Parts {
				if other.Name != c.part && (other.Records != records(other.Name) || other.Error != "") {
					t.Errorf("%+v", other)
				}
			}
		})
	}
}

// Placement of a later OpenStack release is served too.
func TestPlacementOfOpenStack(t *testing.T) {
	m := newMachine(t, nil)
	m.do(backup.Placement, "UPDATE alembic_version SET version_num = 'a082b8bb98d0'")
	if r := m.check(); !r.Ready || r.of(backup.Placement).Before != "a082b8bb98d0" {
		t.Error(text(t, r))
	}
}

// A file system that is too small for copies or for a backup is reported before it is full.
func TestSmallFileSystem(t *testing.T) {
	testenv.Long(t)
	m := newMachine(t, nil)
	small := t.TempDir()
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatalf("mounting a tmpfs failed; run this test as root: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(small, syscall.MNT_DETACH)) })
	r, err := Check(t.Context(), Options{Parts: m.parts(), WorkDir: small, BackupDir: small})
	must(t, err)
	found := strings.Join(r.Problems, "\n")
	for _, want := range []string{"compute.db: a check of its copy may take", "--work-dir", "a backup takes about",
		"--backup-dir"} {
		if !strings.Contains(found, want) {
			t.Errorf("no %q in %s", want, found)
		}
	}
	if _, err := Check(t.Context(), Options{WorkDir: m.path("none"), BackupDir: small}); err == nil ||
		!strings.Contains(err.Error(), "--work-dir") {
		t.Error(err)
	}
}

// An interrupted check removes its copies.
func TestInterrupted(t *testing.T) {
	m := newMachine(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	work := t.TempDir()
	_, err := Check(ctx, Options{Parts: m.parts(), WorkDir: work, BackupDir: m.dir})
	left, other := os.ReadDir(work)
	if !errors.Is(err, context.Canceled) || other != nil || len(left) > 0 {
		t.Errorf("%v %v %v", err, left, other)
	}
}

// A process that uses the journal is named with its program.
func TestProcesses(t *testing.T) {
	m := newMachine(t, nil)
	reader := exec.CommandContext(t.Context(), "tail", "-f", m.path("agent/journal"))
	lines, err := reader.StdoutPipe()
	must(t, err)
	must(t, reader.Start())
	_, err = lines.Read(make([]byte, 1)) // it has opened the file
	must(t, err)
	r := m.check()
	must(t, reader.Process.Kill())
	_ = reader.Wait()
	if len(r.Processes) != 1 || r.Processes[0].PID != reader.Process.Pid || r.Processes[0].Same ||
		!strings.Contains(r.Processes[0].Program, "/") || !r.Ready {
		t.Error(text(t, r))
	}
}

// Databases of servers are read where they are. Migrations that are due are not tried.
func TestServers(t *testing.T) {
	testenv.Need(t, "MariaDB", "PostgreSQL")
	for _, server := range []*databases.Server{databases.MariaDB(t), databases.PostgreSQL(t)} {
		urls := map[backup.Name]string{}
		for _, name := range []backup.Name{backup.Placement, backup.Compute, backup.Network} {
			urls[name] = server.Database(t)
		}
		m := newMachine(t, urls)
		r := m.check()
		if !r.Ready || r.of(backup.Compute).Records != 2 || r.of(backup.Network).Records != 1 ||
			r.of(backup.Placement).Records != 1 || r.Space.Needed < 10000 {
			t.Error(text(t, r))
		}
		if out := text(t, r); strings.Count(out, "other connections") != 3 {
			t.Error(out)
		}
		m.do(backup.Network, `UPDATE network_networks SET record = '{"id":"net","later":1}'`)
		m.do(backup.Compute, "DELETE FROM compute_schema WHERE name = 'compute_group_members'")
		r = m.check()
		if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "network: records that cannot be read: 1") ||
			!strings.Contains(text(t, r), "compute: 1 migrations are due") {
			t.Error(text(t, r))
		}
		if again := m.check().of(backup.Compute); again.Before != r.of(backup.Compute).Before {
			t.Errorf("the check has migrated the database: %+v", again)
		}
	}
}
