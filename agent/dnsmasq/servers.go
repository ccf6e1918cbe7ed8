// Package dnsmasq runs the DHCP and DNS servers of a host: one process of the program dnsmasq for each network. The
// processes outlive the agent, which finds them again by their files.
package dnsmasq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// The times of starting and ending a process.
const (
	startTime = 20 * time.Second
	endTime   = 5 * time.Second
	endPoll   = 20 * time.Millisecond
)

// Servers are the processes whose files are below a directory: one directory for each network.
type Servers struct{ Dir string }

// Server is what is known of the server of a network.
type Server struct {
	Network string
	PID     int // 0: it does not run
}

// Apply makes the servers those that are wanted: it starts, informs and ends processes. It goes on after a fault, and
// returns the faults by network.
func (s Servers) Apply(ctx context.Context, want []bridgeplan.DHCP) map[string]error {
	failed := map[string]error{}
	for _, w := range want {
		if err := s.apply(ctx, w); err != nil {
			failed[w.Network] = err
		}
	}
	present, err := s.List()
	if err != nil {
		failed[""] = err
	}
	for _, p := range present {
		if slices.ContainsFunc(want, func(w bridgeplan.DHCP) bool { return w.Network == p.Network }) {
			continue
		}
		if err := s.remove(ctx, p); err != nil {
			failed[p.Network] = err
		}
	}
	return failed
}

// List returns the servers that have files.
func (s Servers) List() (list []Server, err error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, Server{e.Name(), s.pid(e.Name())})
		}
	}
	if err != nil {
		err = fault.New(fault.Unavailable, "the DHCP servers cannot be listed: %w", err)
	}
	return list, err
}

func (s Servers) dir(network string) string { return filepath.Join(s.Dir, network) }

// configFile is the file whose path identifies a process.
func (s Servers) configFile(network string) string {
	return filepath.Join(s.dir(network), "dnsmasq.conf")
}

// pid returns the process of a network; 0: it does not run. The number in the file counts only if that process was
// started with the configuration of the network, because another one may have the number by now.
func (s Servers) pid(network string) int {
	text, err := os.ReadFile(filepath.Join(s.dir(network), "pid"))
	pid, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || err2 != nil || pid <= 0 {
		return 0
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !slices.Contains(strings.Split(string(line), "\x00"), "--conf-file="+s.configFile(network)) {
		return 0
	}
	return pid
}

// apply makes the server of a network the wanted one.
func (s Servers) apply(ctx context.Context, w bridgeplan.DHCP) error {
	changed, restart, err := s.write(w)
	if err != nil {
		return fault.New(fault.Unavailable, "the files of a DHCP server cannot be written: %w", err)
	}
	pid := s.pid(w.Network)
	switch {
	case pid == 0:
	case restart:
		if err := end(ctx, func() int { return s.pid(w.Network) }); err != nil {
			return err
		}
	case changed:
		if err := syscall.Kill(pid, syscall.SIGHUP); err == nil {
			return s.used(w.Network)
		}
	default:
		return nil
	}
	if err := s.start(ctx, w.Network); err != nil {
		return err
	}
	return s.used(w.Network)
}

// pendingFile exists while the process of a network may not have read its files as they are.
const pendingFile = "pending"

// write writes the files of a server. It reports whether its process must read them again, and whether it must start
// again for that. If files were written before, and the process did not read them since, because the agent was killed
// or failed in between, both are true and all files are written again.
func (s Servers) write(w bridgeplan.DHCP) (changed, restart bool, err error) {
	dir := s.dir(w.Network)
	if err := s.makeDir(dir); err != nil {
		return false, false, err
	}
	pending := filepath.Join(dir, pendingFile)
	_, err = os.Lstat(pending)
	before := !errors.Is(err, os.ErrNotExist)
	changed, restart = before, before
	config := strings.ReplaceAll(w.Config, "%DIR%", dir) + userLine()
	for name, content := range map[string]string{"dnsmasq.conf": config, "hosts": w.Hosts, "options": w.Options,
		"names": w.Names} {
		path := filepath.Join(dir, name)
		if present, err := os.ReadFile(path); !before && err == nil && string(present) == content {
			continue
		}
		if err := os.WriteFile(pending, nil, 0o600); err != nil {
			return false, false, err
		}
		if err := errors.Join(datafile.Replace(path, []byte(content)), os.Chmod(path, 0o644)); err != nil {
			return false, false, err
		}
		changed, restart = true, restart || name == "dnsmasq.conf"
	}
	return changed, restart, nil
}

// used records that the process of a network has read its files.
func (s Servers) used(network string) error {
	err := os.Remove(filepath.Join(s.dir(network), pendingFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Unavailable, "a file of a DHCP server cannot be removed: %w", err)
	}
	return nil
}

// makeDir makes a directory that dnsmasq can read by its group after it has given up root's rights, and cannot write.
func (s Servers) makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	// Not by MkdirAll alone, because a service may run with a stricter mask of modes.
	for path, mode := range map[string]os.FileMode{filepath.Dir(s.Dir): 0o711, s.Dir: 0o711, dir: 0o750} {
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	u, err := user.Lookup(serverUser)
	if err != nil || os.Geteuid() != 0 {
		return nil
	}
	id, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	return os.Chown(dir, -1, id)
}

// serverUser is the user that the package dnsmasq-base makes for the program.
const serverUser = "dnsmasq"

// userLine returns the options for user and group of a process: dnsmasq's own, or root if there is none.
func userLine() string {
	if os.Geteuid() != 0 {
		return ""
	}
	u, err := user.Lookup(serverUser)
	if err != nil {
		return "user=root\n"
	}
	if g, err := user.LookupGroupId(u.Gid); err == nil {
		return "user=" + serverUser + "\ngroup=" + g.Name + "\n"
	}
	return "user=" + serverUser + "\n"
}

// start starts the process of a network and returns when it has bound its addresses.
func (s Servers) start(ctx context.Context, network string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dnsmasq", "--conf-file="+s.configFile(network))
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fault.New(fault.Unavailable, "the program dnsmasq is not installed; install the package dnsmasq-base")
	case err != nil:
		return fault.New(fault.Unavailable, "the DHCP server of network %s does not start: %w: %s; another server may use "+
			"the ports 53 and 67 of all addresses", network, err, strings.TrimSpace(said.String()))
	}
	return nil
}

// remove ends the process of a network and removes its files.
func (s Servers) remove(ctx context.Context, p Server) error {
	if err := end(ctx, func() int { return s.pid(p.Network) }); err != nil {
		return err
	}
	if err := os.RemoveAll(s.dir(p.Network)); err != nil {
		return fault.New(fault.Unavailable, "the files of a DHCP server cannot be removed: %w", err)
	}
	return nil
}

// end ends a process. pid returns it as long as it runs.
func end(ctx context.Context, pid func() int) error {
	deadline := time.Now().Add(endTime)
	signal := syscall.SIGTERM
	for n := pid(); n != 0; n = pid() {
		if time.Now().After(deadline) {
			signal = syscall.SIGKILL
		}
		if err := syscall.Kill(n, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fault.New(fault.Unavailable, "the DHCP server %d cannot be ended: %w", n, err)
		}
		select {
		case <-ctx.Done():
			return fault.Wrap(fault.Unavailable, ctx.Err())
		case <-time.After(endPoll):
		}
	}
	return nil
}
