package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/sqldb"
)

// Only one process of compute uses a database, whatever the data directories. A second one does not start, and its
// error names the first. After kill -9 the next one starts at once. A process that was stopped until another one had
// taken over the database ends.
func TestOneComputeOnADatabase(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		url := fresh(t)
		path := filepath.Join(t.TempDir(), "compute.conf")
		if err := os.WriteFile(path, []byte("[database]\nconnection = "+url+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args := func() []string {
			return []string{"compute", "--config-file", path, "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0"}
		}
		first := start(t, []string{"compute"}, args()...)
		_, stderr, status := output(t, args()...)
		for _, word := range []string{"in use by another berth", fmt.Sprintf("process %d on host ", first.cmd.Process.Pid),
			", since 20", "end that one first"} {
			if status != statusFailed || !strings.Contains(stderr, word) {
				t.Errorf("a second process: status %d, without %q:\n%s", status, word, stderr)
			}
		}
		if _, err := first.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1,
			RAM: 64}); err != nil {
			t.Fatal(err)
		}

		first.kill()
		second := start(t, []string{"compute"}, args()...)
		if strings.Contains(second.log.String(), "waiting") {
			t.Errorf("it waited for a dead process of the same machine:\n%s", second.log)
		}
		testTakeover(t, second, url, args())
	})
}

// testTakeover stops a process with SIGSTOP and starts another one on its database.
func testTakeover(t *testing.T, old *daemon, url string, args []string) {
	t.Helper()
	stopBetweenWrites(t, old, url)
	next := start(t, []string{"compute"}, args...)
	if !strings.Contains(next.log.String(), "waiting") {
		t.Errorf("the log does not report the wait:\n%s", next.log)
	}
	if err := old.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-old.done:
		old.done <- err
		if err == nil || !strings.Contains(old.log.String(), fmt.Sprintf("taken over compute's database (process %d on host ",
			next.cmd.Process.Pid)) {
			t.Errorf("it ended without the reason (%v):\n%s", err, old.log)
		}
	case <-time.After(testenv.Patience):
		t.Fatalf("it did not end although another process has its database\n%s", old.log)
	}
	if flavors, err := next.compute().Flavors(t.Context()); err != nil || len(flavors) != 1 {
		t.Errorf("flavors of the next process %v: %v", flavors, err)
	}
	next.stop(t)
	began := time.Now()
	last := start(t, []string{"compute"}, args...)
	if strings.Contains(last.log.String(), "waiting") {
		t.Errorf("it waited %s for a process that had ended normally:\n%s", time.Since(began), last.log)
	}
	last.stop(t)
}

// stopBetweenWrites stops the process when it has no open transaction, because another process cannot take over a
// locked database.
func stopBetweenWrites(t *testing.T, d *daemon, url string) {
	t.Helper()
	unlocked := leaseUnlocked(t, url)
	testenv.Until(t, "it was stopped between two writes", func() (bool, error) {
		if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return false, err
		}
		err := unlocked()
		if err == nil {
			return true, nil
		}
		return false, errors.Join(err, d.cmd.Process.Signal(syscall.SIGCONT))
	})
}

// leaseUnlocked returns a function that returns nil if no transaction has locked the rows of compute's lease.
func leaseUnlocked(t *testing.T, url string) func() error {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return db.WriteUpTo(ctx, 1, func(tx *sqldb.Tx) error {
			for _, table := range []string{"compute_lease_owner", "compute_lease"} {
				if _, err := tx.Exec(ctx, "UPDATE "+table+" SET one = one"); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
