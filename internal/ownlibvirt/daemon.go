// Package ownlibvirt starts a libvirt daemon with directories of its own, for the demo and for tests: Debian's libvirtd
// in namespaces for mounts, the network, the host name and processes, so that the libvirt of the machine is not
// touched. It needs root.
//
// The daemon and its guests end when Close is called, and also when this process ends.
package ownlibvirt

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
)

// Options configure a daemon.
type Options struct {
	// Dir has all files of the daemon. The caller makes it and removes it. Its path must be short, because the path of a
	// Unix socket has at most 107 bytes, and other users must be able to pass through it, because QEMU is another user.
	Dir     string
	Prepare string    // shell commands that run in the namespaces before the daemon; $1 is Dir
	Name    string    // host name; empty: that of the machine. Between daemons of one name no guest can migrate
	TLS     string    // directory with cacert.pem, servercert.pem and serverkey.pem; empty: only the socket is served
	Encrypt string    // directory with QEMU's certificates for migrations; empty: they cannot be encrypted
	Output  io.Writer // of the daemon
}

// Daemon is one libvirtd.
type Daemon struct {
	Socket string // of the local administrator
	cmd    *exec.Cmd
	ended  chan struct{} // closed after err is set
	err    error         // how the process that starts the daemon has ended
}

// The files of the daemon's configuration. A container has no cgroups of its own, and often no security module.
var files = map[string]string{
	"libvirtd.conf": "listen_tcp = 0\nauth_unix_rw = \"none\"\nunix_sock_rw_perms = \"0700\"\n",
	"qemu.conf": "security_driver = \"none\"\nstdio_handler = \"file\"\ncgroup_controllers = []\nnamespaces = []\n" +
		"user = \"libvirt-qemu\"\ngroup = \"libvirt-qemu\"\n",
}

// script mounts the directories over those of the machine, and runs the daemon again whenever it has ended, unless the
// file stopped exists. It ends if the daemon cannot start: after maxStarts starts that lasted less than a second. It is
// the first process of its namespace, so it also collects ended guests, and all guests end with it.
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
[ -z "$2" ] || hostname "$2"
%PREPARE%
failed=0
while [ $failed -lt %MAX% ]; do
	began=$(date +%s%N)
	libvirtd --listen --config /etc/libvirt/libvirtd.conf --pid-file "$1/pid" &
	wait $! || true
	if [ $(($(date +%s%N) - began)) -lt 1000000000 ]; then failed=$((failed + 1)); else failed=0; fi
	while [ -e "$1/stopped" ]; do sleep 0.05; done
done
echo "libvirtd has ended $failed times within a second of its start" >&2
exit 1
`

// maxStarts is how often in a row the daemon may end within a second of its start.
const maxStarts = 5

// programs are what the daemon, its guests and the driver need, with the Debian package of each.
var programs = []struct{ name, pkg string }{{"libvirtd", "libvirt-daemon-system libvirt-daemon-driver-qemu"},
	{"qemu-system-x86_64", "qemu-system-x86"}, {"qemu-img", "qemu-utils"}, {"ip", "iproute2"},
	{"unshare", "util-linux"}}

// Check returns fault.Unavailable if a program is missing or the caller is not root.
func Check() error {
	var names, packages []string
	for _, p := range programs {
		if _, err := exec.LookPath(p.name); err != nil {
			names, packages = append(names, p.name), append(packages, p.pkg)
		}
	}
	if len(names) > 0 {
		return fault.New(fault.Unavailable, "programs are missing: %s; install them: apt-get install %s",
			strings.Join(names, ", "), strings.Join(packages, " "))
	}
	if os.Getuid() != 0 {
		return fault.New(fault.Unavailable, "a libvirt daemon cannot be started: it needs root; use sudo")
	}
	return nil
}

// Start starts a daemon. It may not answer yet; see Await.
func Start(o Options) (*Daemon, error) {
	for _, name := range []string{"run", "lib", "cache", "log", "etc"} {
		if err := os.Mkdir(filepath.Join(o.Dir, name), 0o755); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err)
		}
	}
	for name, text := range files {
		if name == "libvirtd.conf" { // without it, all daemons of a machine are one host
			text += "host_uuid = \"" + uuid.NewString() + "\"\n" + listenTLS(o.TLS)
		}
		if name == "qemu.conf" && o.Encrypt != "" {
			text += fmt.Sprintf("migrate_tls_x509_cert_dir = %q\n", o.Encrypt)
		}
		if err := os.WriteFile(filepath.Join(o.Dir, "etc", name), []byte(text), 0o600); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err)
		}
	}
	text := strings.NewReplacer("%PREPARE%", o.Prepare, "%MAX%", strconv.Itoa(maxStarts)).Replace(script)
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "--net", "--uts", "--pid", "--fork",
		"--kill-child", "--mount-proc", "sh", "-c", text, "sh", o.Dir, o.Name)
	cmd.Stdout, cmd.Stderr = o.Output, o.Output
	cmd.WaitDelay = 5 * time.Second // a process that has left the namespaces may keep the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	d := &Daemon{Socket: filepath.Join(o.Dir, "run", "libvirt-sock"), cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		d.err = cmd.Wait()
	}()
	return d, nil
}

// listenTLS returns the lines of libvirtd.conf with the certificates of a directory; empty: the daemon does not listen.
func listenTLS(dir string) string {
	if dir == "" {
		return "listen_tls = 0\n"
	}
	return fmt.Sprintf("listen_tls = 1\nca_file = %q\ncert_file = %q\nkey_file = %q\n", filepath.Join(dir, "cacert.pem"),
		filepath.Join(dir, "servercert.pem"), filepath.Join(dir, "serverkey.pem"))
}

// Process returns the id of the process that has started the namespaces.
func (d *Daemon) Process() int { return d.cmd.Process.Pid }

// Answers returns nil if the daemon accepts connections.
func (d *Daemon) Answers() error {
	conn, err := net.Dial("unix", d.Socket)
	if err == nil {
		conn.Close()
	}
	return err
}

// Await waits until the daemon accepts connections. The fault is Unavailable when the context ends first, or when the
// daemon cannot start; Options.Output then has its reason.
func (d *Daemon) Await(ctx context.Context) error {
	for {
		err := d.Answers()
		if err == nil {
			return nil
		}
		select {
		case <-d.ended:
			return fault.New(fault.Unavailable, "libvirtd cannot be started (%v)", d.err)
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "libvirtd does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Close ends the daemon and its guests, and waits for their end.
func (d *Daemon) Close() {
	_ = d.cmd.Process.Kill() // an error means that it has ended
	<-d.ended
}
