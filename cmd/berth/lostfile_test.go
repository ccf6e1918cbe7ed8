package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// loss is one way in which an operator takes a file away from a running process.
type loss struct {
	name string
	lose func(t *testing.T, path, replacement string)
	says string // the instruction, after the name of the file
}

func losses() []loss {
	return []loss{
		{"deleted", func(t *testing.T, path, _ string) { must(t, os.Remove(path)) }, "was deleted or moved"},
		{"replaced", func(t *testing.T, path, replacement string) { must(t, os.Rename(replacement, path)) },
			"was replaced by another file"},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The database of a running placement is deleted, or another file takes its place. From then on no claim is
// acknowledged, the process ends with an instruction, a new file is not touched, and the saved copy holds every claim
// that was acknowledged.
func TestPlacementDatabaseLost(t *testing.T) {
	testenv.Long(t)
	for _, l := range losses() {
		t.Run(l.name, func(t *testing.T) {
			dir := t.TempDir()
			path, replacement := filepath.Join(dir, "placement.db"), filepath.Join(dir, "backup.db")
			sync := []string{"placement", "db", "sync", "--config-file", placementConf(t, replacement)}
			if stdout, stderr, status := output(t, sync...); status != 0 {
				t.Fatal(stdout, stderr)
			}
			before := contents(t, replacement)
			conf := placementConf(t, path)
			d := start(t, []string{"placement"}, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
			acknowledged := d.claimUntilLost(t, func() { l.lose(t, path, replacement) })
			d.endsSaying(t, path, l.says, "start Berth again")

			saved := savedCopy(t, path)
			if l.name == "replaced" {
				if !bytes.Equal(contents(t, path), before) {
					t.Error("the new file was changed")
				}
				integrity(t, path)
				again := start(t, []string{"placement"}, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
				if n := again.held(t, acknowledged); n != 0 {
					t.Errorf("the new file holds %d claims of the old one", n)
				}
				again.stop(t)
				return
			}
			_, stderr, status := output(t, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
			if status != statusFailed || !strings.Contains(stderr, saved) || !strings.Contains(stderr, "rename it to "+path) {
				t.Errorf("a start without the file: status %d: %s", status, stderr)
			}
			must(t, os.Rename(saved, path))
			integrity(t, path)
			again := start(t, []string{"placement"}, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
			if n := again.held(t, acknowledged); n != len(acknowledged) {
				t.Errorf("the saved copy holds %d of the %d claims that were acknowledged", n, len(acknowledged))
			}
			again.stop(t)
		})
	}
}

// Without its -wal file the database lacks what was written last. Placement writes that to the database, and ends; so
// it does without the -shm file, by which processes agree on the -wal. A file that was put in the place of the -wal is
// not applied to the database.
func TestPlacementDatabaseLogLost(t *testing.T) {
	testenv.Long(t)
	for name, lose := range map[string]func(t *testing.T, path string){
		"wal deleted": func(t *testing.T, path string) { must(t, os.Remove(path+"-wal")) },
		"shm deleted": func(t *testing.T, path string) { must(t, os.Remove(path+"-shm")) },
		"wal replaced": func(t *testing.T, path string) {
			must(t, os.WriteFile(path+"-other", []byte("another file"), 0o600))
			must(t, os.Rename(path+"-other", path+"-wal"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "placement.db")
			conf := placementConf(t, path)
			d := start(t, []string{"placement"}, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
			acknowledged := d.claimUntilLost(t, func() { lose(t, path) })
			d.endsSaying(t, path+"-"+name[:3], "all acknowledged writes are in "+path, "start Berth again")
			if name == "wal replaced" {
				aside, err := filepath.Glob(path + "-wal.saved-*")
				if err != nil || len(aside) != 1 || string(contents(t, aside[0])) != "another file" {
					t.Errorf("what was put in the place of the -wal is not kept: %v %v", aside, err)
				}
			}
			integrity(t, path)
			again := start(t, []string{"placement"}, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
			if n := again.held(t, acknowledged); n != len(acknowledged) {
				t.Errorf("%d of the %d claims that were acknowledged are left", n, len(acknowledged))
			}
			again.stop(t)
		})
	}
}

// The same for compute's database, with flavors for claims, and in `berth up`.
func TestComputeDatabaseLost(t *testing.T) {
	testenv.Long(t)
	for _, l := range losses() {
		t.Run(l.name, func(t *testing.T) {
			dir := t.TempDir()
			path, replacement := filepath.Join(dir, "compute.db"), filepath.Join(t.TempDir(), "backup.db")
			other := start(t, []string{"compute"}, "compute", "--data-dir", filepath.Dir(replacement), "--listen", "127.0.0.1:0")
			other.stop(t)
			must(t, os.Rename(filepath.Join(filepath.Dir(replacement), "compute.db"), replacement))
			before := contents(t, replacement)
			d := up(t, conf(t, machine(t, 1, 1)), dir)
			var acknowledged []string
			d.writeUntilLost(t, func() { l.lose(t, path, replacement) }, func(ctx context.Context, id string) error {
				_, err := d.compute().CreateFlavor(ctx, compute.CreateFlavor{ID: id, Name: id, VCPUs: 1, RAM: 64})
				return err
			}, &acknowledged)
			d.endsSaying(t, path, l.says, "start Berth again")
			if l.name == "replaced" {
				if !bytes.Equal(contents(t, path), before) {
					t.Error("the new file was changed")
				}
				integrity(t, path)
				return
			}
			must(t, os.Rename(savedCopy(t, path), path))
			again := start(t, []string{"compute"}, "compute", "--data-dir", dir, "--listen", "127.0.0.1:0")
			flavors, err := again.compute().Flavors(t.Context())
			must(t, err)
			there := map[string]bool{}
			for _, f := range flavors {
				there[f.ID] = true
			}
			for _, id := range acknowledged {
				if !there[id] {
					t.Errorf("the saved copy lacks the flavor %s, which was acknowledged", id)
				}
			}
			again.stop(t)
		})
	}
}

// placementConf is a configuration with an SQLite database.
func placementConf(t *testing.T, path string, more ...string) string {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "placement.conf")
	text := "[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = " +
		"sqlite:///" + path + "\n" + strings.Join(more, "\n")
	must(t, os.WriteFile(conf, []byte(text), 0o600))
	return conf
}

// claimUntilLost lets clients claim, loses the file among the claims, and returns the consumers whose claims were
// acknowledged.
func (d *daemon) claimUntilLost(t *testing.T, lose func()) (acknowledged []string) {
	t.Helper()
	host, err := d.placement().CreateProvider(t.Context(), provider.ID(uuid.NewString()), "host", "")
	must(t, err)
	_, err = d.placement().PutInventories(t.Context(), host.ID, host.Generation,
		map[resource.Class]resource.Inventory{"VCPU": resource.Whole(1 << 30)})
	must(t, err)
	d.writeUntilLost(t, lose, func(ctx context.Context, id string) error {
		return d.placement().PutAllocation(ctx, resource.ConsumerID(id), placement.ConsumerAllocation{Project: "p", User: "u",
			ConsumerType: "INSTANCE",
			Allocation:   resource.Allocation{host.ID: {"VCPU": 1}}})
	}, &acknowledged)
	return acknowledged
}

// writeUntilLost calls write with new ids from several clients at once until the process is gone. Once some writes
// were acknowledged it loses the file. No write that began after that may be acknowledged, and /healthz may not say
// that all is well a second later.
func (d *daemon) writeUntilLost(t *testing.T, lose func(), write func(ctx context.Context, id string) error,
	acknowledged *[]string) {
	t.Helper()
	const clients, enough = 4, 60
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var lost time.Time // zero: not yet
	late, ready := 0, make(chan struct{})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				id, began := uuid.NewString(), time.Now()
				err := write(ctx, id)
				mu.Lock()
				if err == nil {
					*acknowledged = append(*acknowledged, id)
					if len(*acknowledged) == enough {
						close(ready)
					}
					if !lost.IsZero() && began.After(lost) {
						late++
					}
				}
				mu.Unlock()
			}
		})
	}
	defer all.Wait()
	defer cancel()
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatalf("nothing is acknowledged\n%s", d.log)
	}
	lose()
	mu.Lock()
	lost = time.Now()
	mu.Unlock()
	for end := time.After(30 * time.Second); ; {
		select {
		case err := <-d.done:
			d.done <- err
			mu.Lock()
			defer mu.Unlock()
			if late > 0 {
				t.Errorf("%d writes were acknowledged that began after the file was lost", late)
			}
			return
		case <-end:
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("the process goes on without its file: %d writes were acknowledged that began after it was lost", late)
		case <-time.After(100 * time.Millisecond):
		}
		asked := time.Now()
		if status := d.health(); status == http.StatusOK && asked.Sub(lost) > 3*time.Second {
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("/healthz is 200 %s after the file was lost, and %d writes were acknowledged that began after that",
				asked.Sub(lost), late)
		}
	}
}

// health is the status of /healthz of the first service; 0 when it does not answer.
func (d *daemon) health() int {
	status := 0
	for _, url := range d.urls {
		resp, err := http.Get(url + "/healthz")
		if err != nil {
			continue
		}
		resp.Body.Close()
		status = max(status, resp.StatusCode)
	}
	return status
}

// endsSaying wants the process to have failed with these words.
func (d *daemon) endsSaying(t *testing.T, words ...string) {
	t.Helper()
	select {
	case err := <-d.done:
		d.done <- err
		if err == nil {
			t.Errorf("it ended as if all were well")
		}
	case <-time.After(time.Minute):
		t.Fatalf("the process goes on\n%s", d.log)
	}
	text := d.log.String()
	last := text[strings.LastIndex(text, "\nberth: ")+1:]
	for _, word := range words {
		if !strings.Contains(last, word) {
			t.Errorf("it ended without saying %q:\n%s", word, last)
		}
	}
}

// held counts the consumers that hold something.
func (d *daemon) held(t *testing.T, consumers []string) (n int) {
	t.Helper()
	for _, id := range consumers {
		a, err := d.placement().Allocation(t.Context(), resource.ConsumerID(id))
		must(t, err)
		if len(a.Allocation) > 0 {
			n++
		}
	}
	return n
}

// savedCopy is the one copy that was saved of a lost database.
func savedCopy(t *testing.T, path string) string {
	t.Helper()
	found, err := filepath.Glob(path + ".saved-*")
	if err != nil || len(found) != 1 {
		t.Fatalf("saved copies: %v %v", found, err)
	}
	info, err := os.Stat(found[0])
	if must(t, err); info.Mode().Perm() != 0o600 {
		t.Errorf("the saved copy has mode %v", info.Mode())
	}
	return found[0]
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

// integrity opens a copy of the database with whatever lies beside it, as the next start would, and lets SQLite check
// it.
func integrity(t *testing.T, path string) {
	t.Helper()
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if data, err := os.ReadFile(path + suffix); err == nil {
			must(t, os.WriteFile(filepath.Join(dir, "copy.db"+suffix), data, 0o600))
		}
	}
	db, err := sqldb.Open(t.Context(), "sqlite:///"+filepath.Join(dir, "copy.db"))
	must(t, err)
	defer db.Close()
	var says string
	must(t, db.Read(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), "PRAGMA integrity_check").Scan(&says)
	}))
	if says != "ok" {
		t.Errorf("%s is damaged: %s", path, fmt.Sprintf("%.200s", says))
	}
}
