package setup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// process is a program that runs in the background: a unit of systemd, or a process of its own with a pid file.
type process struct {
	unit    string   // of systemd; empty: a process of its own
	args    []string // of berth
	env     []string
	pidFile string
	logFile string
}

// unitPaths are the directories in which the packages and administrators have units.
var unitPaths = []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// unitOf returns the unit of this name if systemd runs and has it, and the configuration is where the unit reads it.
func unitOf(name string, o Options) string {
	if !exists("/run/systemd/system") || o.Config != packagedConf || o.Data != packagedData {
		return ""
	}
	for _, dir := range unitPaths {
		if exists(filepath.Join(dir, name+".service")) {
			return name
		}
	}
	return ""
}

func (c *Cloud) process() process {
	o := c.o
	return process{unit: unitOf("berth", o), pidFile: o.pidFile(), logFile: o.logFile(), env: []string{"BERTH_LISTEN=" +
		o.Listen}, args: []string{"up", "--config-file", o.confFile(), "--data-dir", o.stateDir()}}
}

// service is the running cloud.
func (c *Cloud) service() thing {
	p := c.process()
	t := p.thing()
	t.undo = func(ctx context.Context) error { return p.stop(ctx) }
	return t
}

func (p process) thing() thing {
	t := thing{id: "service", made: p.running, make: p.start, undo: p.stop}
	if p.unit != "" {
		t.what, t.hint = "the unit "+p.unit+".service, enabled and started", "systemctl disable --now "+p.unit
		return t
	}
	t.what = "`berth " + p.args[0] + "` in the background (pid file " + p.pidFile + ", log " + p.logFile +
		"); it does not start again with the machine"
	t.hint = "kill $(cat " + p.pidFile + ")"
	return t
}

// running reports whether the program runs, and with systemd also whether it starts with the machine.
func (p process) running(ctx context.Context) (bool, error) {
	if p.unit == "" {
		return p.pid() != 0, nil
	}
	active := exec.CommandContext(ctx, "systemctl", "is-active", "--quiet", p.unit).Run()
	enabled := exec.CommandContext(ctx, "systemctl", "is-enabled", "--quiet", p.unit).Run()
	return active == nil && enabled == nil, nil
}

// pid returns the process of the pid file; 0 if it has ended. The number may belong to another program now, so the
// command line must be that of this one.
func (p process) pid() int {
	text, err := os.ReadFile(p.pidFile)
	pid, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || err2 != nil || pid <= 1 {
		return 0
	}
	line, err := commandLine(pid)
	if err != nil || !bytes.Contains(line, []byte(strings.Join(p.args, "\x00")+"\x00")) {
		return 0
	}
	return pid
}

// commandLine returns the command line of a process; empty for one that has ended and was not waited for. While the
// process becomes another program the kernel has none (fs/proc/base.c, get_mm_cmdline), on a busy machine for longer.
func commandLine(pid int) ([]byte, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	for until := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) > 0 || time.Now().After(until) {
			return line, err
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if _, state, _ := bytes.Cut(stat, []byte(") ")); err != nil || bytes.HasPrefix(state, []byte("Z")) {
			return nil, err
		}
	}
}

// start starts the program. The process writes its pid file before it becomes berth, so that a run that is killed here
// leaves no process without one.
func (p process) start(ctx context.Context) error {
	if p.unit != "" {
		out, err := exec.CommandContext(ctx, "systemctl", "enable", "--now", p.unit).CombinedOutput()
		if err != nil {
			return fault.New(fault.Unavailable, "cannot start %s.service: %w: %s; `journalctl -u %s` has the reason", p.unit,
				err, bytes.TrimSpace(out), p.unit)
		}
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	defer log.Close()
	script := `echo $$ >"$0.new" && mv "$0.new" "$0" && exec "$@"`
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, p.pidFile, self}, p.args...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), p.env...), "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fault.New(fault.Unavailable, "cannot start %s: %w", self, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for range 50 {
		if p.pid() != 0 {
			return nil
		}
		select {
		case err := <-ended:
			return fault.New(fault.Unavailable, "`berth %s` ended: %v; %s", p.args[0], err, p.reason())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fault.New(fault.Unavailable, "`berth %s` does not start; %s", p.args[0], p.reason())
}

// stopTime is how long the program may take to end.
const stopTime = 90 * time.Second

// stop stops the program and returns when it has ended.
func (p process) stop(ctx context.Context) error {
	if p.unit != "" {
		out, err := exec.CommandContext(ctx, "systemctl", "disable", "--now", p.unit).CombinedOutput()
		if err != nil {
			return fault.New(fault.Unavailable, "cannot stop %s.service: %w: %s", p.unit, err, bytes.TrimSpace(out))
		}
		return nil
	}
	pid := p.pid()
	if pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fault.New(fault.Unavailable, "cannot end the process %d: %w", pid, err)
		}
		for until := time.Now().Add(stopTime); p.pid() != 0; {
			if time.Now().After(until) {
				return fault.New(fault.Unavailable, "the process %d does not end; %s may have the reason", pid, p.logFile)
			}
			if err := backoff.Sleep(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return errors.Join(removeFile(p.pidFile), removeFile(p.logFile))
}

// reload makes a running service read its certificate again.
func (c *Cloud) reload(ctx context.Context) error {
	p := c.process()
	if running, err := p.running(ctx); err != nil || !running {
		return err
	}
	if p.unit != "" {
		return fault.Wrap(fault.Unavailable, exec.CommandContext(ctx, "systemctl", "reload", p.unit).Run())
	}
	return fault.Wrap(fault.Unavailable, syscall.Kill(p.pid(), syscall.SIGHUP))
}

// log returns where the log of the program is.
func (p process) log() string {
	if p.unit != "" {
		return "`journalctl -u " + p.unit + "`"
	}
	return p.logFile
}

// reason returns the last error that the program has printed at its end, if any, and where its log is.
func (p process) reason() string {
	var text []byte
	if p.unit != "" {
		text, _ = exec.Command("journalctl", "--quiet", "--output=cat", "--lines=20", "--unit="+p.unit).Output()
	} else {
		text, _ = os.ReadFile(p.logFile)
	}
	if last := lastError(string(text)); last != "" {
		return "its last error is: " + last + "; " + p.log() + " has more"
	}
	return p.log() + " has the reason"
}

// lastError returns the message of a berth that has ended with one, which is the last line of its log, except for what
// systemd writes after it in a journal; "" if the log ends otherwise.
func lastError(log string) string {
	for _, line := range slices.Backward(strings.Split(log, "\n")) {
		if text, is := strings.CutPrefix(line, "berth: "); is {
			return text
		}
		if line != "" && !strings.Contains(line, ".service") {
			break
		}
	}
	return ""
}
