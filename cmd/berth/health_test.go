package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
)

// watched are a placement and a compute on databases of one kind, and nobody who asks them anything but how they are.
type watched []*daemon

// watch starts both; url gives each of them a database.
func watch(t *testing.T, url func(service string) string) watched {
	t.Helper()
	path := filepath.Join(t.TempDir(), "berth.conf")
	text := fmt.Sprintf("[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = "+
		"%s\n[database]\nconnection = %s\n", url("placement"), url("compute"))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	var all watched
	for _, service := range []string{"placement", "compute"} {
		all = append(all, start(t, []string{service}, service, "--config-file", path, "--listen", "127.0.0.1:0"))
	}
	return all
}

// until waits until both have this status at /healthz and, when they are not well, say why.
func (all watched) until(t *testing.T, status int, why string) {
	t.Helper()
	for _, d := range all {
		eventually(t, fmt.Sprintf("/healthz is %d", status), func() (bool, error) {
			for service, url := range d.urls {
				began := time.Now()
				resp, err := http.Get(url + "/healthz")
				if err != nil {
					return false, err
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					return false, err
				}
				var said struct{ Status, Reason string }
				if err := json.Unmarshal(body, &said); err != nil {
					return false, fmt.Errorf("%s: %d %s: %w", service, resp.StatusCode, body, err)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s: /healthz took %s", service, took)
				}
				if resp.StatusCode != status || !strings.Contains(said.Reason, why) ||
					(said.Status == "ok") != (status == http.StatusOK) {
					return false, fmt.Errorf("%s: %d %s", service, resp.StatusCode, body)
				}
			}
			return true, nil
		})
	}
}

// A full disk, of a real file system.
func TestHealthOfAFullDisk(t *testing.T) {
	testenv.Long(t)
	dir := filepath.Join(t.TempDir(), "small")
	must(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatalf("this test mounts a small disk, as root: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	all := watch(t, func(service string) string { return "sqlite:///" + filepath.Join(dir, service+".db") })
	all.until(t, http.StatusOK, "")

	filler, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	for page := make([]byte, 4096); err == nil; {
		_, err = filler.Write(page)
	}
	must(t, filler.Close())
	all.until(t, http.StatusServiceUnavailable, "takes no writes: its disk is full")
	all.until(t, http.StatusServiceUnavailable, "takes no writes: its disk is full") // also later

	must(t, os.Remove(filler.Name()))
	all.until(t, http.StatusOK, "")
	for _, d := range all {
		d.stop(t)
	}
}

// A MariaDB that all clients may read and none may write, by a lock and by an option.
func TestHealthOfAReadOnlyMariaDB(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	admin := server.Admin(t)
	exec := func(statement string) {
		t.Helper()
		_, err := admin.ExecContext(t.Context(), statement)
		must(t, err)
	}
	exec("CREATE USER plain@'%' IDENTIFIED BY 'plain'") // the option binds no administrator
	exec("GRANT ALL ON `berth\\_%`.* TO plain@'%'")
	all := watch(t, func(string) string { return strings.Replace(server.Database(t), "berth:berth", "plain:plain", 1) })
	all.until(t, http.StatusOK, "")

	exec("SET GLOBAL read_only = 1")
	all.until(t, http.StatusServiceUnavailable, "takes no writes: it is read-only")
	exec("SET GLOBAL read_only = 0")
	all.until(t, http.StatusOK, "")

	locker, err := admin.Conn(t.Context())
	must(t, err)
	defer locker.Close()
	_, err = locker.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
	must(t, err)
	const why = "takes no writes: none ends in time"
	all.until(t, http.StatusServiceUnavailable, why)
	for range 2 { // who asks again and again does not leave a connection in the server each time
		time.Sleep(1100 * time.Millisecond)
		all.until(t, http.StatusServiceUnavailable, why)
	}
	var waiting int
	must(t, locker.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM information_schema.processlist WHERE "+
		"user = 'plain' AND state LIKE 'Waiting for backup lock'").Scan(&waiting))
	if waiting < 2 || waiting > 4 { // each service's probe, and compute's lease
		t.Errorf("%d statements wait for the lock", waiting)
	}
	_, err = locker.ExecContext(t.Context(), "UNLOCK TABLES")
	must(t, err)
	all.until(t, http.StatusOK, "")
	for _, d := range all {
		d.stop(t)
	}
}

// A PostgreSQL whose transactions are read-only.
func TestHealthOfAReadOnlyPostgreSQL(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	admin := server.Admin(t)
	readOnly := func(value string) {
		t.Helper()
		for _, statement := range []string{"ALTER SYSTEM SET default_transaction_read_only = " + value,
			"SELECT pg_reload_conf()"} {
			_, err := admin.ExecContext(t.Context(), statement)
			must(t, err)
		}
	}
	all := watch(t, func(string) string { return server.Database(t) })
	all.until(t, http.StatusOK, "")
	readOnly("on")
	all.until(t, http.StatusServiceUnavailable, "takes no writes: it is read-only")
	readOnly("off")
	all.until(t, http.StatusOK, "")
	for _, d := range all {
		d.stop(t)
	}
}
