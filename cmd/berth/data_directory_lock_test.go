package main

import (
	"fmt"
	"strings"
	"testing"
)

// A second process of a service on a data directory is refused; other services may use the directory. After the first
// has ended, in any way, the next one starts.
func TestSecondProcessOnADataDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := conf(t, machine(t, 1, 1))
	d := up(t, path, dir)
	for _, args := range [][]string{
		{"up", "--config-file", path, "--data-dir", dir, "--listen-placement", "127.0.0.1:0", "--listen-compute",
			"127.0.0.1:0", "--listen-network", "127.0.0.1:0", "--listen-image",
			"127.0.0.1:0"},
		{"compute", "--config-file", path, "--data-dir", dir, "--listen", "127.0.0.1:0"},
	} {
		if stdout, stderr, status := output(t, args...); status != 1 || stdout != "" || !strings.Contains(stderr,
			fmt.Sprintf("in use by another berth (process %d)", d.cmd.Process.Pid)) {
			t.Errorf("%s: status %d %s %s", args[0], status, stdout, stderr)
		}
	}
	d.kill()
	var services []*daemon // of one data directory, side by side
	for _, name := range []string{"network", "image", "compute"} {
		services = append(services, start(t, []string{name}, name, "--config-file", path, "--data-dir", dir, "--listen",
			"127.0.0.1:0"))
		if stdout, stderr, status := output(t, name, "--config-file", path, "--data-dir", dir, "--listen",
			"127.0.0.1:0"); status != 1 || stdout != "" || !strings.Contains(stderr, "of the service "+name) {
			t.Errorf("a second %s: status %d %s %s", name, status, stdout, stderr)
		}
	}
	for _, d := range services {
		d.stop(t)
	}
}
