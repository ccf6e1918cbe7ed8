package databases

import (
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"
)

// servers are the two database servers that are processes.
func servers() map[string]func(testing.TB, ...string) *Server {
	return map[string]func(testing.TB, ...string) *Server{"MariaDB": MariaDB, "PostgreSQL": PostgreSQL}
}

// dial opens the newest database of a server.
func dial(t *testing.T, s *Server, url string) *sql.DB {
	t.Helper()
	name := url[strings.LastIndex(url, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	db, err := s.kind.open(s.Addr, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// do executes statements.
func do(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// TestServers tests that committed data survives a kill, that each database is empty at first, and that no files are
// left.
func TestServers(t *testing.T) {
	for name, start := range servers() {
		var dir string
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			s := start(t)
			dir = s.dir
			t.Logf("%s responds after %v", name, time.Since(began).Round(time.Millisecond))
			db, other := dial(t, s, s.Database(t)), dial(t, s, s.Database(t))
			for _, db := range []*sql.DB{db, other} {
				do(t, db, "CREATE TABLE n (n INTEGER PRIMARY KEY)")
			}
			do(t, db, "INSERT INTO n VALUES (7)")
			s.Kill(t)
			if err := db.Ping(); err == nil {
				t.Error("the killed server responds")
			}
			s.Restart(t)
			var n int
			if err := db.QueryRow("SELECT n FROM n").Scan(&n); err != nil || n != 7 {
				t.Errorf("after the kill: %d %v", n, err)
			}
			if err := other.QueryRow("SELECT n FROM n").Scan(&n); err != sql.ErrNoRows {
				t.Errorf("rows in the other database: %v", err)
			}
		})
		if _, err := os.Stat(dir); dir != "" && !os.IsNotExist(err) {
			t.Errorf("%s left %s: %v", name, dir, err)
		}
	}
}

// TestOptions tests that a later option has priority.
func TestOptions(t *testing.T) {
	s := PostgreSQL(t, "-c", "max_connections=23")
	var got string
	if err := dial(t, s, s.Database(t)).QueryRow("SHOW max_connections").Scan(&got); err != nil || got != "23" {
		t.Errorf("%q %v", got, err)
	}
}

// TestWardenEndsWithTest tests that a test process that dies leaves no server: the warden's standard input ends.
func TestWardenEndsWithTest(t *testing.T) {
	for name, start := range servers() {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			if err := s.alive.life.Close(); err != nil { // as the kernel does when this process dies
				t.Fatal(err)
			}
			for last := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				_, err := os.Stat(s.dir)
				if os.IsNotExist(err) && s.alive.over() {
					return
				}
				if time.Now().After(last) {
					t.Fatalf("the server is still running: %v", err)
				}
			}
		})
	}
}
