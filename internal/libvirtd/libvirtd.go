// Package libvirtd starts a libvirt daemon for tests: Debian's libvirtd with directories of its own, in a mount
// namespace, so that the libvirt of the machine is not touched. It needs root, QEMU and the packages
// libvirt-daemon-system and libvirt-daemon-driver-qemu. The daemon ends with the test; its guests end with it.
//
// The daemon sees the PCI functions 0000:3b:00.1 to 0000:3b:00.7, which exist only as files, and has a bridge. Guests
// get an emulated device in the place of such a function: what libvirt does with a device is real, except VFIO.
package libvirtd

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// Daemon is one libvirtd.
type Daemon struct {
	Socket string // of the local administrator
	dir    string
	cmd    *exec.Cmd
	log    logBuffer
}

// The files of the daemon's configuration. A container has no cgroups of its own, and often no security module.
var files = map[string]string{
	"libvirtd.conf": "listen_tls = 0\nlisten_tcp = 0\nauth_unix_rw = \"none\"\nunix_sock_rw_perms = \"0700\"\n",
	"qemu.conf": "security_driver = \"none\"\nstdio_handler = \"file\"\ncgroup_controllers = []\nnamespaces = []\n" +
		"user = \"libvirt-qemu\"\ngroup = \"libvirt-qemu\"\n",
}

// script mounts the directories over those of the machine, and runs the daemon again whenever it has ended, unless the
// file stopped exists. It is the first process of its namespace, so it also collects ended guests, and all guests end
// with it. In its network there is only the bridge.
const script = `set -e
for name in run lib cache log etc; do
	case $name in
	run) at=/run/libvirt ;;
	etc) at=/etc/libvirt ;;
	*) at=/var/$name/libvirt ;;
	esac
	mkdir -p "$at"
	mount --bind "$1/$name" "$at"
done
ip link set lo up
ip link add "$2" type bridge
ip link set "$2" up
mount --bind "$1/pci" /sys/bus/pci
mount --bind "$1/iommu_groups" /sys/kernel/iommu_groups
mount -t tmpfs -o mode=755 dev "$1/dev"
for name in null zero full random urandom tty net kvm; do
	[ ! -e "/dev/$name" ] || cp -a "/dev/$name" "$1/dev/"
done
mkdir "$1/dev/pts" "$1/dev/shm" "$1/dev/vfio"
for name in vfio 1 2 3 4 5 6 7; do : >"$1/dev/vfio/$name"; done
ln -s pts/ptmx "$1/dev/ptmx"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$1/dev/pts"
mount --rbind "$1/dev" /dev
PATH=$1/bin:$PATH
export LD_PRELOAD="$1/bin/memlock.so"
while :; do
	libvirtd --config /etc/libvirt/libvirtd.conf --pid-file "$1/pid" &
	wait $! || true
	while [ -e "$1/stopped" ]; do sleep 0.05; done
done
`

// Start starts a daemon and waits until it answers.
func Start(t testing.TB) *Daemon {
	t.Helper()
	testenv.Need(t, "libvirtd")
	dir, err := os.MkdirTemp("", "libvirtd") // short: a path of a Unix socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // guests run as another user
		t.Fatal(err)
	}
	d := &Daemon{dir: dir, Socket: filepath.Join(dir, "run", "libvirt-sock")}
	for _, name := range []string{"run", "lib", "cache", "log", "etc", "dev"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.makeDevices(t)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.launch(t)
	t.Cleanup(d.end)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("libvirtd:\n%s", tail(d.log.String()))
			d.logGuests(t)
		}
	})
	d.awaitAnswer(t)
	return d
}

// logGuests prints what QEMU has printed.
func (d *Daemon) logGuests(t testing.TB) {
	logs, _ := filepath.Glob(d.path("log/qemu/*.log")) // the pattern is valid
	for _, name := range logs {
		text, err := os.ReadFile(name)
		t.Logf("%s: %v\n%s", filepath.Base(name), err, tail(string(text)))
	}
}

// GuestDir returns a new directory for the files of guests, which run as another user.
func (d *Daemon) GuestDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(d.dir, "guests")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// SmallDir returns a directory for the files of guests on a file system of a size, such as 16k. Only the test sees it
// under this path, so no guest can start from it.
func (d *Daemon) SmallDir(t testing.TB, size string) string {
	t.Helper()
	dir := d.GuestDir(t)
	if out, err := d.Command(t.Context(), "mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs",
		dir).CombinedOutput(); err !=
		nil {
		t.Fatalf("%v: %s", err, out)
	}
	return fmt.Sprintf("/proc/%d/root%s", child(d.cmd.Process.Pid, "sh"), dir)
}

// Command returns a command that sees the daemon as that of the machine, with its PCI functions.
func (d *Daemon) Command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	shell := child(d.cmd.Process.Pid, "sh")
	return exec.CommandContext(ctx, "nsenter", append([]string{fmt.Sprintf("--mount=/proc/%d/ns/mnt", shell),
		"--wdns=" + d.dir, name},
		arguments...)...)
}

// launch starts the namespace with the daemon.
func (d *Daemon) launch(t testing.TB) {
	t.Helper()
	d.cmd = exec.Command("unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child",
		"--mount-proc", "sh", "-c", script, "sh", d.dir, Bridge)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the daemon with SIGKILL, until Resume. Its guests continue to run.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(d.path("stopped"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.signal(t, syscall.SIGKILL)
	for d.answers() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// Hang stops the daemon without ending it, until the returned function is called: it accepts connections and does not
// answer.
func (d *Daemon) Hang(t testing.TB) (proceed func()) {
	t.Helper()
	d.signal(t, syscall.SIGSTOP)
	return func() { d.signal(t, syscall.SIGCONT) }
}

// signal sends a signal to the daemon.
func (d *Daemon) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	pid := d.cmd.Process.Pid
	for _, name := range []string{"sh", "libvirtd"} {
		if pid = child(pid, name); pid == 0 {
			t.Fatalf("the process %s is not found", name)
		}
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// Resume starts the daemon again after Stop, and waits until it answers.
func (d *Daemon) Resume(t testing.TB) {
	t.Helper()
	if err := os.Remove(d.path("stopped")); err != nil {
		t.Fatal(err)
	}
	d.awaitAnswer(t)
}

// path returns the path of a file of the daemon.
func (d *Daemon) path(name string) string { return filepath.Join(d.dir, name) }

// child returns the id of a child process with a name, or 0.
func child(parent int, name string) int {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", parent))
	if err != nil {
		return 0
	}
	for _, text := range strings.Fields(string(list)) {
		comm, err := os.ReadFile("/proc/" + text + "/comm")
		if pid, bad := strconv.Atoi(text); err == nil && bad == nil && strings.TrimSpace(string(comm)) == name {
			return pid
		}
	}
	return 0
}

// answers returns nil if the daemon accepts connections.
func (d *Daemon) answers() error {
	conn, err := net.Dial("unix", d.Socket)
	if err == nil {
		conn.Close()
	}
	return err
}

func (d *Daemon) awaitAnswer(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := d.answers()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("libvirtd does not answer: %v\n%s", err, tail(d.log.String()))
		}
	}
}

// end ends the daemon and its guests.
func (d *Daemon) end() {
	d.cmd.Process.Kill()
	d.cmd.Wait()
}

// logBuffer is the output of the daemon. It is read while the daemon writes.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// tail returns the last lines of a log.
func tail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
