package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// machine is a fresh Debian that systemd has started in namespaces, without a network.
type machine struct {
	t      *testing.T
	dir    string // its root
	leader string // process id of its systemd
}

// system is what is installed on a machine before it starts.
type system struct {
	name     string
	packages []string
	guests   bool // it runs virtual machines
}

var plain = system{name: "plain", packages: []string{"rpm"}}

// debian returns a tar file of a minimal Debian 12 with systemd and the packages of a system. It is made once and kept
// in the user's cache. A machine has no network, so one for guests also has what `berth image build` downloads.
func debian(t *testing.T, s system) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	must(t, err)
	list := strings.Join(append([]string{"systemd", "systemd-sysv", "dbus"}, s.packages...), ",")
	file := filepath.Join(cache, "berth-packaging", fmt.Sprintf("bookworm-%s-%x.tar", s.name, sha256.Sum256([]byte(list))))
	if _, err := os.Stat(file); err == nil {
		return file
	}
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	next := filepath.Join(filepath.Dir(file), fmt.Sprintf("next-%d.tar", os.Getpid()))
	args := []string{"--quiet", "--variant=minbase", "--include=" + list, "--format=tar"}
	if s.guests {
		script, err := filepath.Abs("../internal/linuxguest/build-image.sh")
		must(t, err)
		args = append(args, `--customize-hook=HOME=/root chroot "$1" bash -c "$(cat '`+script+
			`')" build-image.sh /root/disk && rm "$1/root/disk"`)
	}
	must(t, runs(exec.CommandContext(t.Context(), "mmdebstrap", append(args, "bookworm", next)...)))
	must(t, os.Rename(next, file))
	return file
}

// boot starts a plain machine. The directory from is its /packages.
func boot(t *testing.T, from string) *machine { t.Helper(); return bootAs(t, plain, "berth", from) }

// bootAs starts a machine with a host name. Machines for guests have what those of hardware have: a TUN device, a
// writable /sys, and control groups that libvirt can use. They have no /dev/kvm, which not every machine of tests has.
func bootAs(t *testing.T, s system, host, from string) *machine {
	t.Helper()
	m := &machine{t: t, dir: filepath.Join(memory(t), "root")}
	must(t, os.Mkdir(m.dir, 0o755))
	must(t, runs(exec.Command("tar", "-C", m.dir, "-xf", debian(t, s))))
	must(t, os.WriteFile(filepath.Join(m.dir, "etc", "hostname"), []byte(host+"\n"), 0o644))
	var console bytes.Buffer
	args := []string{"--directory=" + m.dir, fmt.Sprintf("--machine=berth-packaging-%d-%s", os.Getpid(), host), "--boot",
		"--register=no", "--keep-unit", "--private-network", "--console=pipe", "--bind-ro=" + from + ":/packages"}
	nspawn := exec.Command("systemd-nspawn", args...)
	if s.guests {
		nspawn.Args = append(nspawn.Args, "--bind=/dev/net/tun")
		nspawn.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=1")
	}
	nspawn.Stdout, nspawn.Stderr = &console, &console
	must(t, nspawn.Start())
	ended := make(chan error, 1)
	go func() { ended <- nspawn.Wait() }()
	t.Cleanup(func() {
		if m.leader != "" {
			_, _ = m.output("systemctl poweroff") // it ends the shell too
		}
		select {
		case <-ended:
		case <-time.After(10 * time.Minute):
			_ = nspawn.Process.Kill() // it does not end by itself
			<-ended
		}
		if t.Failed() {
			t.Logf("console: %.3000s", console.String())
		}
	})
	out := ""
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if m.leader = childOf(nspawn.Process.Pid); m.leader != "" {
			out, _ = m.output("systemctl is-system-running")
			// A unit of the minimal system may fail in namespaces: degraded.
			if state := strings.TrimSpace(out); state == "running" || state == "degraded" {
				return m
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the machine did not start within a minute: %s\n%s", out, console.String())
		}
	}
}

// childOf returns the process id of a child; empty if there is none yet.
func childOf(parent int) string {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		_, after, _ := strings.Cut(string(text), ") ") // the name of the program may have spaces
		if fields := strings.Fields(after); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			return filepath.Base(filepath.Dir(stat))
		}
	}
	return ""
}

// memory returns a directory in memory if there is room, which is removed at the end.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "berth-test-packaging-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// command returns a shell script that runs on the machine, in /root, and stops at the first error.
func (m *machine) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", "--target", m.leader, "--all", "sh", "-euc", "cd /root\n"+script)
	cmd.Env = []string{"HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (m *machine) output(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	out, err := m.command(ctx, script).CombinedOutput()
	return string(out), err
}

// run runs a script that must succeed, and returns its output.
func (m *machine) run(script string) string {
	m.t.Helper()
	out, err := m.output(script)
	if err != nil {
		log, _ := m.output("journalctl --no-pager -n 300 -u 'berth*' | grep -v 'level=INFO msg=request' | tail -n 40")
		m.t.Fatalf("%s\n%v\n%s\n%s", script, err, out, log)
	}
	return out
}

func runs(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
