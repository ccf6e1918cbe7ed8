package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
)

// asBerth is the environment variable with which the test binary runs as berth, so that tests can start real processes
// without another binary.
const asBerth = "BERTH_TEST_AS_BERTH"

func TestMain(m *testing.M) {
	if os.Getenv(asBerth) == "1" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// berth returns the command with these arguments, not started.
func berth(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asBerth+"=1")
	return cmd
}

// output runs berth and returns its output and its exit status.
func output(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := berth(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// daemon is a running `berth up` or one of its services.
type daemon struct {
	cmd  *exec.Cmd
	urls map[string]string // by service
	log  *logBuffer
	done chan error
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start starts a daemon and waits until it has printed the addresses of these services.
func start(t *testing.T, services []string, args ...string) *daemon {
	t.Helper()
	d := &daemon{cmd: berth(t, args...), urls: map[string]string{}, log: &logBuffer{}, done: make(chan error, 1)}
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
		if name, url, ok := strings.Cut(lines.Text(), ": "); ok {
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
			t.Fatalf("berth %s did not print the address of %s:\n%s", strings.Join(args, " "), s, d.log)
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
	case <-time.After(60 * time.Second):
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

// machine writes a captured machine with PFs that have vfs VFs each, and returns its path.
func machine(t *testing.T, pfs, vfs int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("A machine for tests: PFs 8086:1528 with VFs 8086:1515.\n")
	device := func(bus, fn int, product, class string, node int) string {
		address := fmt.Sprintf("0000:%02x:%02x.%d", bus, fn/8, fn%8)
		fmt.Fprintf(&b, "-- bus/pci/devices/%s -> ../../../devices/pci0000:00/%s --\n", address, address)
		dir := "devices/pci0000:00/" + address + "/"
		for file, text := range map[string]string{"vendor": "0x8086", "device": "0x" + product, "class": class,
			"numa_node": fmt.Sprint(node)} {
			fmt.Fprintf(&b, "-- %s%s --\n%s\n", dir, file, text)
		}
		return address
	}
	for i := range pfs {
		bus := 0x10 + i
		pf := device(bus, 0, "1528", "0x020000", i%2)
		fmt.Fprintf(&b, "-- devices/pci0000:00/%s/sriov_totalvfs --\n%d\n-- devices/pci0000:00/%s/sriov_numvfs --\n%d\n", pf,
			vfs, pf, vfs)
		for n := range vfs {
			vf := device(bus, n+1, "1515", "0x020000", i%2)
			fmt.Fprintf(&b, "-- devices/pci0000:00/%s/physfn -> ../%s --\n-- devices/pci0000:00/%s/virtfn%d -> ../%s --\n", vf,
				pf, pf, n, vf)
		}
	}
	path := filepath.Join(t.TempDir(), "machine.txtar")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// conf writes a configuration that offers the VFs of a machine of function machine, and returns its path.
func conf(t *testing.T, machine string, more ...string) string {
	t.Helper()
	text := `[DEFAULT]
host = cmp1
[oslo_concurrency]
lock_path = ` + t.TempDir() + `
[api]
auth_strategy = noauth2
[pci]
report_in_placement = true
device_spec = {"vendor_id": "8086", "product_id": "1515", "resource_class": "CUSTOM_VF"}
alias = {"name": "vf", "resource_class": "CUSTOM_VF", "device_type": "type-VF"}
[filter_scheduler]
pci_in_placement = true
[berth]
sysfs = ` + machine + "\n" + strings.Join(more, "\n")
	path := filepath.Join(t.TempDir(), "berth.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// up starts a cloud with berth up on free ports.
func up(t *testing.T, conf, dir string) *daemon {
	t.Helper()
	return start(t, []string{"placement", "compute"}, "up", "--config-file", conf, "--data-dir", dir,
		"--listen-placement", "127.0.0.1:0", "--listen-compute", "127.0.0.1:0")
}

// eventually waits until holds returns true, at most two minutes.
func eventually(t *testing.T, what string, holds func() (bool, error)) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var ok bool
		if ok, err = holds(); ok {
			return
		}
	}
	t.Fatalf("timeout: %s (last error: %v)", what, err)
}
