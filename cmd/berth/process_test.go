package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestVersion(t *testing.T) {
	stdout, stderr, status := output(t, "--version")
	if status != 0 || !strings.HasPrefix(stdout, "berth ") || !strings.Contains(stdout, runtime.Version()) ||
		stderr != "" {
		t.Errorf("status %d: %q %q", status, stdout, stderr)
	}
}

// A second process of compute on a data directory is refused. After the first has ended, in any way, the next one
// starts.
func TestSecondProcessOnADataDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := conf(t, machine(t, 1, 1))
	d := up(t, path, dir)
	for _, args := range [][]string{
		{"up", "--config-file", path, "--data-dir", dir, "--listen-placement", "127.0.0.1:0", "--listen-compute",
			"127.0.0.1:0"},
		{"compute", "--config-file", path, "--data-dir", dir, "--listen", "127.0.0.1:0"},
	} {
		if stdout, stderr, status := output(t, args...); status != 1 || stdout != "" || !strings.Contains(stderr,
			fmt.Sprintf("in use by another berth (process %d)", d.cmd.Process.Pid)) {
			t.Errorf("%s: status %d %s %s", args[0], status, stdout, stderr)
		}
	}
	d.kill()
	c := start(t, []string{"compute"}, "compute", "--config-file", path, "--data-dir", dir, "--listen", "127.0.0.1:0")
	c.stop(t)
}

// Without --config-file the default files of the original are read, those of placement.conf.d last, and logged. SIGHUP
// reopens the log for logrotate.
func TestDefaultFilesAndLogRotation(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "placement.log")
	for name, text := range map[string]string{
		"placement.conf": "[DEFAULT]\nlog_file = " + log + "\n[api]\nauth_strategy = " +
			"keystone\n[placement_database]\nconnection = sqlite:///" + dir + "/p.db\n",
		"placement.conf.d/10.conf": "[api]\nauth_strategy = noauth2\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("OS_PLACEMENT_CONFIG_DIR", dir)
	if stdout, stderr, status := output(t, "placement", "db", "sync"); status != 0 || !strings.HasPrefix(stdout,
		"created the schema") {
		t.Fatalf("status %d %s %s", status, stdout, stderr)
	}
	d := start(t, []string{"placement"}, "placement", "--listen", "127.0.0.1:0")
	read := func() string {
		text, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
	get := func() {
		resp, err := http.Get(d.urls["placement"] + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, err)
		}
	}
	if text := read(); !strings.Contains(text, "placement.conf.d/10.conf") {
		t.Errorf("the log does not contain the files: %s", text)
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log file exists again", func() (bool, error) { _, err := os.Stat(log); return err == nil, err })
	before, err := os.Stat(log + ".1")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new log contains a request", func() (bool, error) {
		get()
		return strings.Contains(read(),
			"msg=request"), nil
	})
	if after, err := os.Stat(log + ".1"); err != nil || after.Size() > before.Size()+10_000 {
		t.Errorf("the old log is still written: %v", err)
	}
	d.stop(t)
	t.Setenv("OS_PLACEMENT_CONFIG_DIR", filepath.Join(dir, "nowhere"))
	if _, stderr, status := output(t, "placement", "db", "version"); status != 1 || !strings.Contains(stderr,
		"OS_PLACEMENT_CONFIG_DIR") {
		t.Errorf("status %d %s", status, stderr)
	}
}

// After SIGTERM, fifty requests whose bodies arrive slowly are answered, and the process ends without an error.
func TestRunningRequestsEndAfterSIGTERM(t *testing.T) {
	d := start(t, []string{"placement"}, "placement", "--config-file", conf(t, machine(t, 1, 1)), "--data-dir",
		t.TempDir(), "--listen", "127.0.0.1:0")
	const many = 50
	begun, statuses := make(chan struct{}, many), make(chan string, many)
	release := make(chan struct{})
	for i := range many {
		go func() {
			body, feed := io.Pipe()
			go func() {
				_, _ = fmt.Fprintf(feed, `{"name":`)
				begun <- struct{}{}
				<-release
				_, _ = fmt.Fprintf(feed, `"host-%d"}`, i)
				feed.Close()
			}()
			req, err := http.NewRequest("POST", d.urls["placement"]+"/resource_providers", body)
			if err != nil {
				statuses <- err.Error()
				return
			}
			req.Header.Set("X-Auth-Token", "admin")
			req.Header.Set("Content-Type", "application/json")
			resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
			if err != nil {
				statuses <- err.Error()
				return
			}
			resp.Body.Close()
			statuses <- resp.Status
		}()
	}
	for range many {
		<-begun
	}
	// The server's metrics have the number of requests that have arrived.
	eventually(t, "all requests have begun", func() (bool, error) {
		resp, err := http.Get(d.urls["placement"] + "/metrics")
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return strings.Contains(string(text), fmt.Sprintf("\nberth_placement_requests_in_flight %d\n", many)), err
	})
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "new connections are refused", func() (bool, error) {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(d.urls["placement"] + "/")
		if err == nil {
			resp.Body.Close()
		}
		return err != nil, nil
	})
	close(release)
	for range many {
		if got := <-statuses; got != "201 Created" {
			t.Errorf("a request that began before SIGTERM: %s", got)
		}
	}
	d.stop(t)
}
