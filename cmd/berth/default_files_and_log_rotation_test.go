package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

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
	testenv.Until(t, "the log file exists again", func() (bool, error) { _, err := os.Stat(log); return err == nil, err })
	before, err := os.Stat(log + ".1")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the new log contains a request", func() (bool, error) {
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
