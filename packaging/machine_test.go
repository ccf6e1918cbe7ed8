package main

import (
	"bytes"
	"context"
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

// debian returns a tar file of a minimal Debian 12 with systemd and rpm. It is made once and kept in the user's cache.
func debian(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	must(t, err)
	file := filepath.Join(cache, "berth-packaging", "bookworm-with-rpm.tar")
	if _, err := os.Stat(file); err == nil {
		return file
	}
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	next := filepath.Join(filepath.Dir(file), fmt.Sprintf("next-%d.tar", os.Getpid()))
	must(t, runs(exec.CommandContext(t.Context(), "mmdebstrap", "--quiet", "--variant=minbase",
		"--include=systemd,systemd-sysv,dbus,rpm", "--format=tar", "bookworm", next)))
	must(t, os.Rename(next, file))
	return file
}

// boot starts a machine. The directory from is its /packages.
func boot(t *testing.T, from string) *machine {
	t.Helper()
	m := &machine{t: t, dir: filepath.Join(memory(t), "root")}
	must(t, os.Mkdir(m.dir, 0o755))
	must(t, runs(exec.Command("tar", "-C", m.dir, "-xf", debian(t))))
	var console bytes.Buffer
	name := fmt.Sprintf("berth-packaging-%d", os.Getpid())
	nspawn := exec.Command("systemd-nspawn", "--directory="+m.dir, "--machine="+name, "--boot", "--register=no",
		"--keep-unit", "--private-network", "--console=pipe", "--bind-ro="+from+":/packages")
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
		case <-time.After(time.Minute):
			_ = nspawn.Process.Kill() // it does not end by itself
			<-ended
		}
		if t.Failed() {
			t.Logf("console: %.3000s", console.String())
		}
	})
	out := ""
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
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
		log, _ := m.output("journalctl --no-pager -n 40 -u 'berth*'")
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
