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

// fileLoss is a way in which a running process loses a file.
type fileLoss struct {
	name    string
	lose    func(t *testing.T, path, replacement string)
	message string // in the error, after the name of the file
}

func fileLosses() []fileLoss {
	return []fileLoss{
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

// After the database of a running placement is deleted or replaced by another file, no claim is acknowledged, the
// process ends with the remedy, a new file is not changed, and the saved copy has all acknowledged claims.
func TestPlacementDatabaseLost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for _, l := range fileLosses() {
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
			d.wantFailure(t, path, l.message, "start Berth again")

			saved := savedCopy(t, path)
			if l.name == "replaced" {
				if !bytes.Equal(contents(t, path), before) {
					t.Error("the new file was changed")
				}
				checkIntegrity(t, path)
				again := start(t, []string{"placement"}, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
				if n := again.countAllocated(t, acknowledged); n != 0 {
					t.Errorf("the new file has %d claims of the old one", n)
				}
				again.stop(t)
				return
			}
			_, stderr, status := output(t, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
			if status != statusFailed || !strings.Contains(stderr, saved) || !strings.Contains(stderr, "rename it to "+path) {
				t.Errorf("a start without the file: status %d: %s", status, stderr)
			}
			must(t, os.Rename(saved, path))
			checkIntegrity(t, path)
			again := start(t, []string{"placement"}, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
			if n := again.countAllocated(t, acknowledged); n != len(acknowledged) {
				t.Errorf("the saved copy has %d of the %d acknowledged claims", n, len(acknowledged))
			}
			again.stop(t)
		})
	}
}

// Without its -wal file the database lacks the last writes. When the -wal or the -shm file is lost, Placement copies
// these writes to the database and ends. A file that replaced the -wal is not applied to the database.
func TestPlacementWALLost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
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
			d.wantFailure(t, path+"-"+name[:3], "all acknowledged writes are in "+path, "start Berth again")
			if name == "wal replaced" {
				aside, err := filepath.Glob(path + "-wal.saved-*")
				if err != nil || len(aside) != 1 || string(contents(t, aside[0])) != "another file" {
					t.Errorf("the file that replaced the -wal is not kept: %v %v", aside, err)
				}
			}
			checkIntegrity(t, path)
			again := start(t, []string{"placement"}, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
			if n := again.countAllocated(t, acknowledged); n != len(acknowledged) {
				t.Errorf("the database has %d of the %d acknowledged claims", n, len(acknowledged))
			}
			again.stop(t)
		})
	}
}

// The same for compute's database in `berth up`, with flavors instead of claims.
func TestComputeDatabaseLost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for _, l := range fileLosses() {
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
			d.wantFailure(t, path, l.message, "start Berth again")
			if l.name == "replaced" {
				if !bytes.Equal(contents(t, path), before) {
					t.Error("the new file was changed")
				}
				checkIntegrity(t, path)
				return
			}
			must(t, os.Rename(savedCopy(t, path), path))
			again := start(t, []string{"compute"}, "compute", "--data-dir", dir, "--listen", "127.0.0.1:0")
			flavors, err := again.compute().Flavors(t.Context())
			must(t, err)
			exists := map[string]bool{}
			for _, f := range flavors {
				exists[f.ID] = true
			}
			for _, id := range acknowledged {
				if !exists[id] {
					t.Errorf("the saved copy lacks the acknowledged flavor %s", id)
				}
			}
			again.stop(t)
		})
	}
}

// placementConf writes a configuration with an SQLite database and returns its path.
func placementConf(t *testing.T, path string, more ...string) string {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "placement.conf")
	text := "[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = " +
		"sqlite:///" + path + "\n" + strings.Join(more, "\n")
	must(t, os.WriteFile(conf, []byte(text), 0o600))
	return conf
}

// claimUntilLost runs clients that claim, calls lose meanwhile, and returns the consumers whose claims were
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

// writeUntilLost calls write with new ids from several clients until the process has ended. After some acknowledged
// writes it calls lose. No write that began after that may be acknowledged, and three seconds later /healthz must not
// be 200.
func (d *daemon) writeUntilLost(t *testing.T, lose func(), write func(ctx context.Context, id string) error,
	acknowledged *[]string) {
	t.Helper()
	const clients, enough = 4, 60
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var lost time.Time // zero before the loss
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
	case <-time.After(testenv.Patience):
		t.Fatalf("fewer than 60 writes were acknowledged\n%s", d.log)
	}
	lose()
	mu.Lock()
	lost = time.Now()
	mu.Unlock()
	for end := time.After(testenv.Patience); ; {
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
			t.Fatalf("the process continues without its file: %d writes were acknowledged that began after it was lost", late)
		case <-time.After(100 * time.Millisecond):
		}
		requested := time.Now()
		if status := d.healthStatus(); status == http.StatusOK && requested.Sub(lost) > 30*time.Second {
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("/healthz is 200 %s after the file was lost, and %d writes were acknowledged that began after that",
				requested.Sub(lost), late)
		}
	}
}

// healthStatus returns the highest status of /healthz of the services; 0 if none answers.
func (d *daemon) healthStatus() int {
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

// wantFailure checks that the process fails with these words.
func (d *daemon) wantFailure(t *testing.T, words ...string) {
	t.Helper()
	select {
	case err := <-d.done:
		d.done <- err
		if err == nil {
			t.Errorf("the process ended without an error")
		}
	case <-time.After(testenv.Patience):
		t.Fatalf("the process continues\n%s", d.log)
	}
	text := d.log.String()
	last := text[strings.LastIndex(text, "\nberth: ")+1:]
	for _, word := range words {
		if !strings.Contains(last, word) {
			t.Errorf("no %q in the error:\n%s", word, last)
		}
	}
}

// countAllocated returns the number of these consumers that have an allocation.
func (d *daemon) countAllocated(t *testing.T, consumers []string) (n int) {
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

// savedCopy returns the path of the only saved copy of a lost database.
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

// checkIntegrity copies the database with its -wal and -shm files, opens the copy and runs SQLite's integrity check.
func checkIntegrity(t *testing.T, path string) {
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
	var result string
	must(t, db.Read(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), "PRAGMA integrity_check").Scan(&result)
	}))
	if result != "ok" {
		t.Errorf("integrity check of %s: %s", path, fmt.Sprintf("%.200s", result))
	}
}
