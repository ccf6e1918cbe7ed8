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

// services are a placement and a compute on databases of one kind. The tests only request /healthz.
type services []*daemon

// startServices starts both. url returns the database of each.
func startServices(t *testing.T, url func(service string) string) services {
	t.Helper()
	path := filepath.Join(t.TempDir(), "berth.conf")
	text := fmt.Sprintf("[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = "+
		"%s\n[database]\nconnection = %s\n", url("placement"), url("compute"))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	var all services
	for _, service := range []string{"placement", "compute"} {
		all = append(all, start(t, []string{service}, service, "--config-file", path, "--listen", "127.0.0.1:0"))
	}
	return all
}

// waitForHealth waits until /healthz of both has this status and reason.
func (all services) waitForHealth(t *testing.T, status int, why string) {
	t.Helper()
	for _, d := range all {
		testenv.Until(t, fmt.Sprintf("/healthz is %d", status), func() (bool, error) {
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
				var health struct{ Status, Reason string }
				if err := json.Unmarshal(body, &health); err != nil {
					return false, fmt.Errorf("%s: %d %s: %w", service, resp.StatusCode, body, err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("%s: /healthz took %s", service, took)
				}
				if resp.StatusCode != status || !strings.Contains(health.Reason, why) ||
					(health.Status == "ok") != (status == http.StatusOK) {
					return false, fmt.Errorf("%s: %d %s", service, resp.StatusCode, body)
				}
			}
			return true, nil
		})
	}
}

// With a full disk /healthz is 503; after a file is deleted it is 200 again.
func TestHealthOfAFullDisk(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "small")
	must(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatalf("mounting a tmpfs failed; run this test as root: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	all := startServices(t, func(service string) string { return "sqlite:///" + filepath.Join(dir, service+".db") })
	all.waitForHealth(t, http.StatusOK, "")

	filler, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	for page := make([]byte, 4096); err == nil; {
		_, err = filler.Write(page)
	}
	must(t, filler.Close())
	all.waitForHealth(t, http.StatusServiceUnavailable, "takes no writes: its disk is full")
	all.waitForHealth(t, http.StatusServiceUnavailable, "takes no writes: its disk is full") // also later

	must(t, os.Remove(filler.Name()))
	all.waitForHealth(t, http.StatusOK, "")
	for _, d := range all {
		d.stop(t)
	}
}

// With a MariaDB that is read-only, by an option or by a lock, /healthz is 503.
func TestHealthOfAReadOnlyMariaDB(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	admin := server.Admin(t)
	exec := func(statement string) {
		t.Helper()
		_, err := admin.ExecContext(t.Context(), statement)
		must(t, err)
	}
	exec("CREATE USER plain@'%' IDENTIFIED BY 'plain'") // the option does not apply to administrators
	exec("GRANT ALL ON `berth\\_%`.* TO plain@'%'")
	all := startServices(t, func(string) string {
		return strings.Replace(server.Database(t), "berth:berth", "plain:plain",
			1)
	})
	all.waitForHealth(t, http.StatusOK, "")

	exec("SET GLOBAL read_only = 1")
	all.waitForHealth(t, http.StatusServiceUnavailable, "takes no writes: it is read-only")
	exec("SET GLOBAL read_only = 0")
	all.waitForHealth(t, http.StatusOK, "")

	locker, err := admin.Conn(t.Context())
	must(t, err)
	defer locker.Close()
	_, err = locker.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
	must(t, err)
	const why = "takes no writes: none ends in time"
	all.waitForHealth(t, http.StatusServiceUnavailable, why)
	for range 2 { // repeated requests do not leave further connections in the server
		time.Sleep(1100 * time.Millisecond)
		all.waitForHealth(t, http.StatusServiceUnavailable, why)
	}
	var waiting int
	must(t, locker.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM information_schema.processlist WHERE "+
		"user = 'plain' AND state LIKE 'Waiting for backup lock'").Scan(&waiting))
	if waiting < 2 || waiting > 4 { // the check of each service, and compute's lease
		t.Errorf("%d statements wait for the lock, want 2 to 4", waiting)
	}
	_, err = locker.ExecContext(t.Context(), "UNLOCK TABLES")
	must(t, err)
	all.waitForHealth(t, http.StatusOK, "")
	for _, d := range all {
		d.stop(t)
	}
}

// With a PostgreSQL whose transactions are read-only, /healthz is 503.
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
	all := startServices(t, func(string) string { return server.Database(t) })
	all.waitForHealth(t, http.StatusOK, "")
	readOnly("on")
	all.waitForHealth(t, http.StatusServiceUnavailable, "takes no writes: it is read-only")
	readOnly("off")
	all.waitForHealth(t, http.StatusOK, "")
	for _, d := range all {
		d.stop(t)
	}
}
