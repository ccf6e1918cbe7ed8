package databases

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

const (
	patience = testenv.Patience // for a server to respond
	ports    = 20               // number of ports to try
)

// start creates the files of a server and runs it until the test ends.
func start(t testing.TB, k kind, options []string) *Server {
	t.Helper()
	testenv.Need(t, k.name)
	s, who := place(t, k)
	s.first(t, who, options)
	return s
}

// first creates the files of a server in its directory, and runs it for the first time.
func (s *Server) first(t testing.TB, who *syscall.Credential, options []string) {
	t.Helper()
	s.install(t, who)
	s.serveAt(t, options)
	s.Restart(t)
	if err := s.exec(s.kind.ready...); err != nil {
		t.Fatal(err)
	}
}

// shared are the servers that the tests of this process share, by name.
var shared = struct {
	sync.Mutex
	servers map[string]*Server
}{servers: map[string]*Server{}}

// share returns the shared server of a kind. Its warden ends it and removes its directory when this process ends.
func share(t testing.TB, k kind) *Server {
	t.Helper()
	testenv.Need(t, k.name)
	shared.Lock()
	defer shared.Unlock()
	if s := shared.servers[k.name]; s != nil {
		return s
	}
	s := &Server{kind: k}
	who, err := s.place()
	if err != nil {
		t.Fatal(err)
	}
	s.first(t, who, nil)
	shared.servers[k.name] = s
	return s
}

// place creates a server's directory, and removes it when the test ends, after the server has ended.
func place(t testing.TB, k kind) (*Server, *syscall.Credential) {
	t.Helper()
	s := &Server{kind: k}
	who, err := s.place()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.alive != nil {
			s.alive.end(false)
		}
		if err := os.RemoveAll(s.dir); err != nil {
			t.Error(err)
		}
	})
	return s, who
}

// install creates the server's files, once for each user of a machine.
func (s *Server) install(t testing.TB, who *syscall.Credential) {
	t.Helper()
	args := s.kind.install(s)
	program, err := s.find(args[0])
	if err != nil {
		t.Fatal(err)
	}
	key := []string{strings.ReplaceAll(strings.Join(args, " "), s.dir, ""), fmt.Sprint(who)}
	if err := testenv.Fill(s.dir, program, key, func() error {
		if out, err := s.run(who, args); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: its files cannot be created: %v", s.kind.name, err)
	}
}

// serveAt chooses the server's address and its arguments.
func (s *Server) serveAt(t testing.TB, options []string) {
	t.Helper()
	var err error
	if s.Addr, err = freeAddr(); err != nil {
		t.Fatal(err)
	}
	s.args = append(s.kind.serve(s), options...)
}

// place creates the server's directory, owned by the user that it runs as.
func (s *Server) place() (*syscall.Credential, error) {
	parent := testenv.Memory()
	if s.kind.onDisk {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "berth-"+s.kind.name+"-")
	if err != nil {
		return nil, err
	}
	s.dir = dir
	who, err := s.credential()
	if err != nil || who == nil {
		return nil, err
	}
	return who, os.Chown(dir, int(who.Uid), int(who.Gid))
}

// credential returns the user of the server: both servers refuse to run as root; another user runs them under its own
// name.
func (s *Server) credential() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(s.kind.user)
	if err != nil {
		return nil, missing(s.kind.name, err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

func missing(name string, err error) error {
	return fmt.Errorf("%s is not installed; run `make tools`: %w", name, err)
}

// command returns a command of the server's package, run as its user in its directory.
func (s *Server) command(who *syscall.Credential, args []string) (*exec.Cmd, error) {
	program, err := s.find(args[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.dir, "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	return cmd, nil
}

// find returns the path of a program: in Debian's directories for servers, which are not in every PATH, or in PATH.
func (s *Server) find(name string) (string, error) {
	for _, bin := range s.kind.bins {
		if program, err := exec.LookPath(filepath.Join(bin, name)); err == nil {
			return program, nil
		}
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return "", missing(s.kind.name, err)
	}
	return program, nil
}

// postgresBins returns Debian's program directories of each release, newest first.
func postgresBins() []string {
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil // the pattern is constant and well-formed
	}
	slices.Reverse(bins)
	return bins
}

func (s *Server) run(who *syscall.Credential, args []string) (string, error) {
	cmd, err := s.command(who, args)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Kill ends the server like kill -9: nothing is flushed or closed. Restart lets it recover committed data.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if s.alive == nil {
		t.Fatalf("%s is killed already", s.kind.name)
	}
	s.alive.end(true)
	s.alive = nil
}

// Restart runs the server again at the same address, and returns when it responds.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	who, err := s.credential()
	if err != nil {
		t.Fatal(err)
	}
	var more []string
	if s.kind.before != nil {
		if more, err = s.kind.before(s, who); err != nil {
			t.Fatal(err)
		}
	}
	s.serve(t, more...)
}

// serve starts the server with additional arguments, and returns when it responds.
func (s *Server) serve(t testing.TB, more ...string) {
	t.Helper()
	who, err := s.credential()
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := s.command(who, append(append([]string(nil), s.args...), more...))
	if err != nil {
		t.Fatal(err)
	}
	for last := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if s.alive == nil {
			if s.alive, err = hold(cmd, s.kind.end, s.dir); err != nil {
				t.Fatal(err)
			}
		}
		if err = s.exec(s.kind.awake...); err == nil {
			return
		}
		if s.alive.over() { // PostgreSQL does not start while a process of the killed one is still running
			s.alive.end(true)
			s.alive = nil
		}
		if time.Now().After(last) {
			t.Fatalf("%s does not respond: %v; its log:\n%s", s.kind.name, err, s.log())
		}
	}
}

// await returns when a running server executes statements.
func (s *Server) await(t testing.TB) {
	t.Helper()
	for last := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := s.exec(s.kind.awake...)
		if err == nil {
			return
		}
		if time.Now().After(last) {
			t.Fatalf("%s does not respond: %v; its log:\n%s", s.kind.name, err, s.log())
		}
	}
}

// log returns the end of the server's output.
func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, logName))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// freeAddr returns an address with a free port outside the range of ephemeral ports.
func freeAddr() (string, error) {
	var err error
	for range ports {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("no free port on loopback: %w", err)
}

func split(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err) // the address is freeAddr's
	}
	return host, port
}

// CPUTime returns the processor time that the server has used, including its child processes.
func (s *Server) CPUTime() (total time.Duration, err error) {
	pids := []string{strconv.Itoa(s.alive.pid)}
	for task := range strings.FieldsSeq(readText("/proc/" + pids[0] + "/task/" + pids[0] + "/children")) {
		pids = append(pids, task)
	}
	for i, pid := range pids {
		stat := readText("/proc/" + pid + "/stat")
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		if len(fields) < 15 {
			if i == 0 {
				return 0, fmt.Errorf("process %s of %s has no processor time: %q", pid, s.Name(), stat)
			}
			continue // the child has ended, and its parent has counted it
		}
		for _, field := range fields[11:15] { // of the process, and of the children that it has waited for
			ticks, err := strconv.Atoi(field)
			if err != nil {
				return 0, err
			}
			total += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return total, nil
}

// readText returns the content of a file, or an empty text.
func readText(file string) string {
	text, _ := os.ReadFile(file)
	return string(text)
}
