package main

import (
	"bufio"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/testenv"
)

// daemon is a running `berth up` or one of its services.
type daemon struct {
	cmd  *exec.Cmd
	urls map[string]string // by service
	log  *testenv.Buffer
	done chan error
}

// start starts a daemon and waits until it has printed the addresses of these services.
func start(t *testing.T, services []string, args ...string) *daemon {
	t.Helper()
	return startCommand(t, services, berth(t, args...))
}

// startCommand is start for a command that runs berth.
func startCommand(t *testing.T, services []string, cmd *exec.Cmd) *daemon {
	t.Helper()
	d := &daemon{cmd: cmd, urls: map[string]string{}, log: &testenv.Buffer{}, done: make(chan error, 1)}
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.kill() })
	lines := bufio.NewScanner(stdout)
	for len(d.urls) < len(services) && lines.Scan() {
		if name, url, ok := strings.Cut(lines.Text(), ": "); ok && slices.Contains(services, name) {
			d.urls[name] = url
		}
	}
	go func() {
		_, copied := io.Copy(d.log, stdout)
		if err := d.cmd.Wait(); err != nil {
			d.done <- err
			return
		}
		d.done <- copied
	}()
	for _, s := range services {
		if d.urls[s] == "" {
			t.Fatalf("berth %s did not print the address of %s:\n%s", strings.Join(cmd.Args, " "), s, d.log)
		}
	}
	return d
}

// kill sends SIGKILL and returns when the process has ended.
func (d *daemon) kill() {
	// An error means that the process has already ended.
	_ = d.cmd.Process.Kill()
	err := <-d.done
	d.done <- err
}

// stop sends SIGTERM and checks that the daemon ends without an error.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-d.done:
		d.done <- err
		if err != nil {
			t.Errorf("berth ended with an error: %v\n%s", err, d.log)
		}
	case <-time.After(testenv.Patience):
		t.Fatalf("berth did not end\n%s", d.log)
	}
}

func (d *daemon) compute() *compute.Client {
	return compute.NewClient(d.urls["compute"], nil, "admin")
}

func (d *daemon) placement() *placement.Client {
	return placement.NewClient(d.urls["placement"], nil, "admin")
}

func (d *daemon) hosts() host.Client {
	return host.Client{REST: &rest.Client{Base: d.urls["compute"], Headers: map[string]string{"X-Auth-Token": "admin"}}}
}

// up starts a cloud with berth up on free ports.
func up(t *testing.T, conf, dir string) *daemon {
	t.Helper()
	return start(t, cloudServices, upArguments(conf, dir)...)
}

// cloudServices are the services whose addresses berth up prints.
var cloudServices = []string{"placement", "compute", "network"}

// upArguments are the arguments of berth up on free ports.
func upArguments(conf, dir string) []string {
	return []string{"up", "--config-file", conf, "--data-dir", dir, "--listen-placement", "127.0.0.1:0",
		"--listen-compute", "127.0.0.1:0", "--listen-network", "127.0.0.1:0", "--listen-image", "127.0.0.1:0"}
}

// ended reports whether the daemon has ended.
func (d *daemon) ended() bool {
	select {
	case err := <-d.done:
		d.done <- err
		return true
	default:
		return false
	}
}
