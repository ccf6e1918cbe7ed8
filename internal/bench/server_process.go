package bench

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Process is a server that runs beside the benchmark. It ends on Stop, and also when the benchmark dies.
type Process struct {
	Addr  string // host:port, once it is known
	PID   int
	Ready time.Duration // from its start to its first response

	life   io.Closer
	cmd    *exec.Cmd
	log    string
	lines  chan string
	client *tls.Config // of clients; nil: without TLS
}

// warden starts a program, prints its process id, ends it when its own standard input is closed, and ends with it.
const warden = `exec 3<&0; "$@" </dev/null 3<&- & p=$!; echo "pid $p"; (cat <&3; kill -TERM $p) >/dev/null 2>&1 & ` +
	`exec 3<&-; wait $p`

// Start starts a program with its log in a file.
func Start(log string, args ...string) (*Process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Process{cmd: exec.Command("sh", append([]string{"-c", warden, "sh"}, args...)...), log: log,
		lines: make(chan string, 16)}
	p.cmd.Stderr = out
	if p.life, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			select {
			case p.lines <- in.Text():
			default: // lines that are not read are dropped
			}
		}
	}()
	line, err := p.awaitLine("pid ", 5*time.Minute)
	if err == nil {
		p.PID, err = strconv.Atoi(line)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// awaitLine waits for a line with this prefix and returns the rest of it.
func (p *Process) awaitLine(beginning string, patience time.Duration) (string, error) {
	late := time.After(patience)
	for {
		select {
		case line, more := <-p.lines:
			if rest, ok := strings.CutPrefix(line, beginning); ok {
				return rest, nil
			}
			if !more {
				return "", fmt.Errorf("%s ended: %s", p.cmd.Args[4], p.tail())
			}
		case <-late:
			return "", fmt.Errorf("%s did not print %q within %s: %s", p.cmd.Args[4], beginning, patience, p.tail())
		}
	}
}

// tail returns the end of the log.
func (p *Process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// Stop ends the server and waits for it.
func (p *Process) Stop() error {
	err := p.life.Close()
	var ended *exec.ExitError
	if waited := p.cmd.Wait(); waited != nil && !errors.As(waited, &ended) {
		err = errors.Join(err, waited)
	}
	return err
}

// Resident returns the memory of the process in bytes: now, and the maximum so far.
func (p *Process) Resident() (now, peak int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int{"VmRSS": &now, "VmHWM": &peak}[name]
		if into == nil {
			continue
		}
		kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/status: %q: %w", p.PID, line, err)
		}
		*into = kib << 10
	}
	return now, peak, nil
}

// tick is the unit of the times in /proc: 1/100 s on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Worked returns the CPU time that the process has used. On a shared machine it is more exact than elapsed time.
func (p *Process) Worked() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses, which may hold blanks; utime and stime are fields 14 and 15.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", p.PID, len(fields)+2)
	}
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", p.PID, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// await polls the version document until the server responds.
func (p *Process) await(patience time.Duration) error {
	c := Dial(p.Addr)
	c.Patience, c.TLS = time.Second, p.client
	if p.client != nil {
		c.Patience = 15 * time.Second // thousands of agents may begin a handshake at the same time
	}
	defer c.Close()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, err := c.Want(200, "GET", "/", nil)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not respond within %s: %w: %s", p.cmd.Args[4], patience, err, p.tail())
		}
	}
}
