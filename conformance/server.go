package conformance

import (
	"bufio"
	"context"
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
	life  io.Closer
	cmd   *exec.Cmd
	lines chan string // the first line of its standard output
}

// warden starts a program and ends it when its own standard input ends: also when the test is killed.
const warden = `"$@" </dev/null & p=$!; cat >/dev/null; kill -TERM $p; wait $p`

// start starts a program under the warden, with its log in a file.
func start(ctx context.Context, name, logFile string, env []string, args ...string) (*Server, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", warden, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = log
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{Name: name, life: life, cmd: cmd, lines: make(chan string, 1)}
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			select {
			case s.lines <- lines.Text():
			default: // nobody waits for a second line
			}
		}
	}()
	return s, nil
}

// Stop ends the server and waits for it.
func (s *Server) Stop() error {
	if err := s.life.Close(); err != nil {
		return err
	}
	// The shell reports how its child ended; ended by our signal is what was wanted.
	var ended *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &ended) {
		return err
	}
	return nil
}

// await asks for the version document until it comes.
func (s *Server) await(ctx context.Context, logFile string) error {
	var last error
	for range 300 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		answer, err := send(s.Addr, Ask{Method: "GET", Target: "/"})
		if err == nil && answer.Status == 200 {
			return nil
		}
		last = err
	}
	log, err := os.ReadFile(logFile)
	return fmt.Errorf("%s does not answer: %w; its log says: %s (%v)", s.Name, last, tail(string(log)), err)
}

func tail(text string) string {
	if len(text) > 3000 {
		return "…" + text[len(text)-3000:]
	}
	return text
}

// Install is what is missing when the original is not there.
const Install = "OpenStack's own Placement is not installed: apt-get install -y placement-api (Debian); the referee " +
	"does not work without it"

func writeConf(dir string) (string, error) {
	path := filepath.Join(dir, "placement.conf")
	text := "[api]\nauth_strategy = noauth2\n\n[placement_database]\nconnection = sqlite:///" + filepath.Join(dir,
		"placement.db") + "\n"
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// StartOriginal starts OpenStack's own Placement on a fresh SQLite database in dir. It runs as Debian runs it: the WSGI
// program of the package in uwsgi.
func StartOriginal(ctx context.Context, dir string) (*Server, error) {
	for _, program := range []string{"placement-manage", "uwsgi", "/usr/bin/placement-api"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%s: %w", Install, err)
		}
	}
	if _, err := writeConf(dir); err != nil {
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
	log := filepath.Join(dir, "original.log")
	s, err := start(ctx, "OpenStack's Placement", log, []string{"OS_PLACEMENT_CONFIG_DIR=" + dir},
		"uwsgi", "--plugins", "python3", "--http-socket", addr, "--wsgi-file", "/usr/bin/placement-api", "--master",
		"--no-orphans",
		"--processes", "1", "--lazy-apps", "--die-on-term", "--need-app", "--disable-logging", "--buffer-size", "65535")
	if err != nil {
		return nil, err
	}
	s.Addr = addr
	if err := s.await(ctx, log); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// freePort finds an address that nobody listens on. uwsgi cannot be told to choose one and say which.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// StartBerth starts `berth placement` on a fresh SQLite database in dir.
func StartBerth(ctx context.Context, program, dir string) (*Server, error) {
	conf, err := writeConf(dir)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "berth.log")
	s, err := start(ctx, "Berth", log, nil, program, "placement", "--config-file", conf, "--data-dir", dir, "--listen",
		"127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	select {
	case line := <-s.lines:
		s.Addr = strings.TrimPrefix(line, "placement: http://")
	case <-time.After(patience):
		text, err := os.ReadFile(log)
		return nil, errors.Join(fmt.Errorf("berth placement does not say where it listens; its log says: %s (%v)",
			tail(string(text)), err), s.Stop())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), s.Stop())
	}
	if err := s.await(ctx, log); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}
