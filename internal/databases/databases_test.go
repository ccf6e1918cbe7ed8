package databases

import (
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"
)

// servers are the two that are started.
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

func do(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// What was committed survives the server's death; each database is empty at first; nothing is left at the end.
func TestServers(t *testing.T) {
	for name, start := range servers() {
		var dir string
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			s := start(t)
			dir = s.dir
			t.Logf("%s answers after %v", name, time.Since(began).Round(time.Millisecond))
			db, other := dial(t, s, s.Database(t)), dial(t, s, s.Database(t))
			for _, db := range []*sql.DB{db, other} {
				do(t, db, "CREATE TABLE n (n INTEGER PRIMARY KEY)")
			}
			do(t, db, "INSERT INTO n VALUES (7)")
			s.Kill(t)
			if err := db.Ping(); err == nil {
				t.Error("the killed server answers")
			}
			s.Restart(t)
			var n int
			if err := db.QueryRow("SELECT n FROM n").Scan(&n); err != nil || n != 7 {
				t.Errorf("after the kill: %d %v", n, err)
			}
			if err := other.QueryRow("SELECT n FROM n").Scan(&n); err != sql.ErrNoRows {
				t.Errorf("in the other database: %v", err)
			}
		})
		if _, err := os.Stat(dir); dir != "" && !os.IsNotExist(err) {
			t.Errorf("%s left %s: %v", name, dir, err)
		}
	}
}

// A later option counts.
func TestOptions(t *testing.T) {
	s := PostgreSQL(t, "-c", "max_connections=23")
	var got string
	if err := dial(t, s, s.Database(t)).QueryRow("SHOW max_connections").Scan(&got); err != nil || got != "23" {
		t.Errorf("%q %v", got, err)
	}
}

// A test that dies leaves no server behind: the warden's standard input ends.
func TestWardenEndsWithUs(t *testing.T) {
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
					t.Fatalf("the server is still there: %v", err)
				}
			}
		})
	}
}
