// Package libvirtd starts a libvirt daemon for tests: Debian's libvirtd with directories of its own, in a mount
// namespace, so that the libvirt of the machine is not touched. It needs root, QEMU and the packages
// libvirt-daemon-system and libvirt-daemon-driver-qemu. The daemon ends with the test; its guests end with it.
//
// The daemon sees the PCI functions 0000:3b:00.1 to 0000:3b:00.7, which exist only as files, and has a bridge. Guests
// get an emulated device in the place of such a function: what libvirt does with a device is real, except VFIO.
package libvirtd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/internal/ownlibvirt"
	"github.com/openberth/berth/internal/testcert"
	"github.com/openberth/berth/internal/testenv"
)

// Daemon is one libvirtd.
type Daemon struct {
	Socket  string // of the local administrator
	Address string // of the host in the network of the pair; empty: it has no other host
	dir     string
	own     *ownlibvirt.Daemon
	log     testenv.Buffer
}

// prepare makes a bridge and puts the devices of the daemon in the place of those of the machine.
const prepare = `ip link add ` + Bridge + ` type bridge
ip link set ` + Bridge + ` up
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
mount -t tmpfs -o mode=1777 lock /run/lock # libvirt locks a console by the name of its terminal
mkdir ` + programs + `
mount --bind "$1/bin" ` + programs + `
# Each daemon would ask the emulator of 32 bits, which has no guests, for what it can do: a second of processor time.
other=$(command -v qemu-system-i386) && : >"$1/none" && mount --bind "$1/none" "$other"
PATH=` + programs + `:$PATH
export LD_PRELOAD=` + programs + `/preload.so
mkdir /var/cache/libvirt/qemu
mv "$1/` + knownDir + `" /var/cache/libvirt/qemu/`

// Start starts a daemon and waits until it answers.
func Start(t testing.TB) *Daemon {
	t.Helper()
	return start(t, ownlibvirt.Options{}, nil)
}

// StartTLS starts a daemon that also listens on the TLS port of its network, with the certificates of a directory.
func StartTLS(t testing.TB, dir string) *Daemon {
	t.Helper()
	return start(t, ownlibvirt.Options{TLS: dir}, nil)
}

// InNetwork returns a command in the network of the daemon.
func (d *Daemon) InNetwork(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=/proc/" + d.namespace() + "/ns/net", name},
		arguments...)...)
}

// The addresses of the hosts of a pair.
const (
	addressA = "192.0.2.1"
	addressB = "192.0.2.2"
)

// StartPair starts the daemons of two hosts whose guests can migrate between them, and a network between the hosts.
func StartPair(t testing.TB) (a, b *Daemon) {
	t.Helper()
	return pair(t, start(t, ownlibvirt.Options{Name: "host-a"}, nil), start(t, ownlibvirt.Options{Name: "host-b"}, nil))
}

// StartEncryptedPair is StartPair, and QEMU of each host has a certificate of an authority, with which it can encrypt
// migrations.
func StartEncryptedPair(t testing.TB, ofA, ofB *testcert.CA) (a, b *Daemon) {
	t.Helper()
	return pair(t, start(t, ownlibvirt.Options{Name: "host-a"}, func(dir string) { certificates(t, dir, ofA, addressA) }),
		start(t, ownlibvirt.Options{Name: "host-b"}, func(dir string) { certificates(t, dir, ofB, addressB) }))
}

// certificates writes the certificates of QEMU on a host, as server and as client, so that QEMU's user can read them.
func certificates(t testing.TB, dir string, ca *testcert.CA, address string) {
	t.Helper()
	files := []string{filepath.Join(dir, "ca-cert.pem")}
	text, err := os.ReadFile(ca.File)
	if err == nil {
		err = os.WriteFile(files[0], text, 0o644)
	}
	for _, side := range []string{"server", "client"} {
		cert, key := filepath.Join(dir, side+"-cert.pem"), filepath.Join(dir, side+"-key.pem")
		ca.Write(t, testcert.Certificate{Address: address, Encipher: true}, cert, key)
		files = append(files, cert, key)
	}
	for _, name := range files {
		err = errors.Join(err, os.Chmod(name, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pair connects the hosts of two daemons.
func pair(t testing.TB, a, b *Daemon) (*Daemon, *Daemon) {
	t.Helper()
	a.Address, b.Address = addressA, addressB
	run(t, exec.Command("ip", "link", "add", "pair", "netns", a.namespace(), "type", "veth", "peer", "name", "pair",
		"netns", b.namespace()))
	for _, d := range []*Daemon{a, b} {
		run(t, d.InNetwork(t.Context(), "ip", "address", "add", d.Address+"/24", "dev", "pair"))
		run(t, d.InNetwork(t.Context(), "ip", "link", "set", "pair", "up"))
	}
	return a, b
}

// namespace returns the id of a process in the namespaces of the daemon.
func (d *Daemon) namespace() string { return strconv.Itoa(child(d.own.Process(), "sh")) }

func run(t testing.TB, command *exec.Cmd) {
	t.Helper()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", command.Args, err, out)
	}
}

// start starts the daemon of a host. certify, if it is not nil, writes QEMU's certificates to a directory.
func start(t testing.TB, o ownlibvirt.Options, certify func(dir string)) *Daemon {
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
	d.mkdir(t, "dev")
	d.makeDevices(t)
	d.writeKnown(t)
	if certify != nil {
		d.mkdir(t, "certificates")
		o.Encrypt = d.path("certificates")
		certify(o.Encrypt)
	}
	o.Dir, o.Prepare, o.Output = dir, o.Prepare+prepare, &d.log
	if d.own, err = ownlibvirt.Start(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.own.Close)
	t.Cleanup(d.keepKnown)
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
	return fmt.Sprintf("/proc/%d/root%s", child(d.own.Process(), "sh"), dir)
}

// Command returns a command that sees the daemon as that of the machine, with its PCI functions.
func (d *Daemon) Command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	shell := child(d.own.Process(), "sh")
	return exec.CommandContext(ctx, "nsenter", append([]string{fmt.Sprintf("--mount=/proc/%d/ns/mnt", shell),
		"--wdns=" + d.dir, name},
		arguments...)...)
}

// Stop ends the daemon with SIGKILL, until Resume. Its guests continue to run.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(d.path("stopped"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.signal(t, syscall.SIGKILL)
	for d.own.Answers() == nil {
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
	pid := d.own.Process()
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

// LoseJobs removes the jobs of running domains from what a stopped daemon has stored, as if it had been killed after
// their ends.
func (d *Daemon) LoseJobs(t testing.TB) {
	t.Helper()
	files, _ := filepath.Glob(d.path("run/qemu/*.xml")) // the pattern is valid
	lost := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		without := storedJob.ReplaceAll(text, nil)
		if err := os.WriteFile(name, without, 0o600); err != nil {
			t.Fatal(err)
		}
		lost += len(text) - len(without)
	}
	if lost == 0 {
		t.Fatalf("no domain of %q has a job", files)
	}
}

var storedJob = regexp.MustCompile(`(?s)<job [^>]*/>|<job .*?</job>`)

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

func (d *Daemon) awaitAnswer(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	if err := d.own.Await(ctx); err != nil {
		t.Fatalf("%v\n%s", err, tail(d.log.String()))
	}
}

// tail returns the last lines of a log.
func tail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
