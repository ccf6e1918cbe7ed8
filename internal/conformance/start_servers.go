package conformance

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Server is a running Placement.
type Server struct {
	Name  string
	Addr  string // host:port
	db    *sql.DB
	stdin io.Closer
	cmd   *exec.Cmd
	lines chan string // receives the first line of its standard output
}

// supervisor is a shell script that starts a program and ends it when the script's standard input ends, also when the
// test is killed.
const supervisor = `"$@" </dev/null & p=$!; cat >/dev/null; kill -TERM $p; wait $p`

// startProgram starts a program under the supervisor. Its standard error is written to logFile.
func startProgram(ctx context.Context, name, logFile string, env []string, args ...string) (*Server, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", supervisor, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = log
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{Name: name, stdin: life, cmd: cmd, lines: make(chan string, 1)}
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			select {
			case s.lines <- lines.Text():
			default: // only the first line is used
			}
		}
	}()
	return s, nil
}

// Stop ends the server and waits for it.
func (s *Server) Stop() error {
	if err := errors.Join(s.db.Close(), s.stdin.Close()); err != nil {
		return err
	}
	// The shell returns the exit status of its child, which ends by a signal here.
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// waitReady requests the version document until the server answers.
func (s *Server) waitReady(ctx context.Context, logFile string) error {
	var last error
	for range 300 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		answer, err := send(s.Addr, Request{Method: "GET", Target: "/"})
		if err == nil && answer.Status == 200 {
			return nil
		}
		last = err
	}
	log, err := os.ReadFile(logFile)
	return fmt.Errorf("%s does not answer: %w; its log: %s (%v)", s.Name, last, tail(string(log)), err)
}

// tail returns the end of a text.
func tail(text string) string {
	if len(text) > 3000 {
		return "…" + text[len(text)-3000:]
	}
	return text
}

// InstallHint is the error text if the original is not installed.
const InstallHint = "OpenStack's own Placement is not installed; install it with apt-get install -y placement-api " +
	"(Debian)"

// writeConf writes a configuration for both servers and returns its path. database is an SQLAlchemy URL.
func writeConf(dir, database string) (string, error) {
	path := filepath.Join(dir, "placement.conf")
	text := "[api]\nauth_strategy = noauth2\n\n[placement_database]\nconnection = " + database +
		"\n\n[oslo_policy]\nenforce_scope = false\n" // the original's default; Berth's is true
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// StartOriginal starts OpenStack's own Placement on an empty database, with its other files in dir. As in Debian, it
// runs in uwsgi; testdata/original_placement.py says what differs.
func StartOriginal(ctx context.Context, dir, database string) (*Server, error) {
	for _, program := range []string{"placement-manage", "uwsgi"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%s: %w", InstallHint, err)
		}
	}
	if _, err := writeConf(dir, database); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "placement-manage", "--config-dir", dir, "db", "sync").CombinedOutput(); err !=
		nil {
		return nil, fmt.Errorf("placement-manage db sync: %w\n%s", err, tail(string(out)))
	}
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(database)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "original.log")
	s, err := startProgram(ctx, "OpenStack's Placement", log, []string{"OS_PLACEMENT_CONFIG_DIR=" + dir},
		"uwsgi", "--plugins", "python3", "--http-socket", addr, "--wsgi-file", "testdata/original_placement.py", "--master",
		"--no-orphans", "--processes", "1", "--lazy-apps", "--die-on-term", "--need-app", "--disable-logging",
		"--buffer-size", "65535")
	if err != nil {
		return nil, err
	}
	s.db = db
	s.Addr = addr
	if err := s.waitReady(ctx, log); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// freePort returns an unused address. uwsgi cannot choose one and report it.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// StartBerth starts `berth placement` on an empty database, with its other files in dir.
func StartBerth(ctx context.Context, program, dir, database string) (*Server, error) {
	conf, err := writeConf(dir, database)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(database)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "berth.log")
	s, err := startProgram(ctx, "Berth", log, nil, program, "placement", "--config-file", conf, "--data-dir", dir,
		"--listen",
		"127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.db = db
	select {
	case line := <-s.lines:
		s.Addr = strings.TrimPrefix(line, "placement: http://")
	case <-time.After(answerTimeout):
		text, err := os.ReadFile(log)
		return nil, errors.Join(fmt.Errorf("berth placement does not print its address; its log: %s (%v)",
			tail(string(text)), err), s.Stop())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), s.Stop())
	}
	if err := s.waitReady(ctx, log); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}
