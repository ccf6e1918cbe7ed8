package stress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/internal/testenv"
)

var (
	seeds  = flag.Int("stress.seeds", 2, "number of seeds of each test")
	first  = flag.Uint64("stress.seed", 1, "the first seed")
	rounds = flag.Int("stress.rounds", 2, "number of faults, or groups of faults, for each seed")
	race   = flag.Bool("stress.race", false, "the server runs with the race detector")

	program string // the binary under test; set once by TestMain
)

// TestMain builds the binary once.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() { // every test that runs a process is skipped
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "berth-stress-")
	if err != nil {
		log.Fatal(err)
	}
	os.Unsetenv("GOGC") // the tests measure the memory of berth with the usual garbage collection
	program = filepath.Join(dir, "berth")
	build := exec.Command("go", "build", "-o", program)
	if *race {
		// The flags are those of .ci/package-lists, so that nothing is compiled twice. The tests may run without cgo,
		// which the race detector needs.
		build.Args = append(build.Args, "-race", "-gcflags=modernc.org/sqlite/lib=-race=false",
			"-gcflags=golang.org/x/crypto/blowfish=-race=false")
		build.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	build.Args = append(build.Args, "github.com/openberth/berth/cmd/berth")
	if out, err := build.CombinedOutput(); err != nil {
		log.Fatalf("%s: %v\n%s", build, err, out)
	}
	status := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	os.Exit(status)
}

// warden starts the server, prints its process id, and kills it when its own standard input ends: closed by the
// test, or because the test process died.
const warden = `"$@" </dev/null & p=$!; echo $p; cat >/dev/null; kill -KILL $p 2>/dev/null; wait $p`

// process is a `berth placement` that can be killed and started again on the same database.
type process struct {
	conf, log string
	addr      atomic.Pointer[string] // of the latest run

	// The current run; nil and 0 without one.
	cmd    *exec.Cmd
	life   io.Closer
	stdout io.ReadCloser
	pid    int
}

// newProcess runs a server on a database until the test ends. The log of all runs must not contain races or panics.
func newProcess(t *testing.T, url string) *process {
	t.Helper()
	testenv.Long(t)
	dir := t.TempDir()
	p := &process{conf: filepath.Join(dir, "placement.conf"), log: filepath.Join(dir, "berth.log")}
	text := "[api]\nauth_strategy = noauth2\n[placement]\nrandomize_allocation_candidates = " +
		"true\n[placement_database]\nconnection = " + url + "\n"
	if err := os.WriteFile(p.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		p.checkLog(t)
	})
	p.start(t)
	return p
}

// launch starts the server and waits only for its process id.
func (p *process) launch(t *testing.T) *bufio.Reader {
	t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command("sh", "-c", warden, "sh", program, "placement", "--config-file", p.conf, "--data-dir",
		filepath.Dir(p.conf), "--listen", "127.0.0.1:0")
	p.cmd.Stderr = out
	if p.life, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdout := bufio.NewReader(p.stdout)
	line, err := stdout.ReadString('\n')
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		t.Fatalf("the server does not start: %v\n%s", err, p.tail())
	}
	return stdout
}

// start starts the server and waits until it is healthy.
func (p *process) start(t *testing.T) {
	t.Helper()
	stdout := p.launch(t)
	line, err := stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("the server ended before it printed its address: %v\n%s", err, p.tail())
	}
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "placement: http://")
	if !ok {
		t.Fatalf("unexpected output %q", line)
	}
	p.addr.Store(&addr)
	p.healthy(t)
}

// kill kills the server with SIGKILL and waits until it has ended. Without a server it does nothing.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.life.Close()
	p.cmd.Wait() // the error is the signal
	p.cmd, p.pid = nil, 0
}

// stop ends the server with SIGTERM; it must finish its requests and end with status 0.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(p.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the server ends after SIGTERM", func() error {
		if p.alive() {
			return errors.New("it is still running")
		}
		return nil
	})
	p.life.Close()
	if err := p.cmd.Wait(); err != nil { // the status of the warden is that of the server; a race is status 66
		t.Errorf("the server ended after SIGTERM with: %v\n%s", err, p.tail())
	}
	p.cmd, p.pid = nil, 0
}

// alive reports whether the server runs. Its warden waits for it only at the end, so its process id is not reused.
func (p *process) alive() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// peak returns the peak memory of the server in bytes.
func (p *process) peak(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// health returns the status of /healthz, on a new connection.
func (p *process) health() (int, error) {
	c := http.Client{Timeout: testenv.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := c.Get("http://" + *p.addr.Load() + "/healthz")
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// healthy waits until /healthz is 200.
func (p *process) healthy(t *testing.T) { t.Helper(); p.await(t, http.StatusOK) }

func (p *process) await(t *testing.T, want int) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("/healthz is %d", want), func() error {
		got, err := p.health()
		if err == nil && got != want {
			err = fmt.Errorf("/healthz is %d", got)
		}
		return err
	})
}

// placementClient returns a client of the latest run. A request that was partly sent is not sent again, unless it
// only reads.
func (p *process) placementClient() *placement.Client {
	dialer := net.Dialer{Timeout: testenv.Patience}
	return placement.NewClient("http://127.0.0.1", &http.Client{Timeout: testenv.Patience, Transport: &http.Transport{
		MaxIdleConnsPerHost: clients,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, *p.addr.Load())
		},
	}}, "admin")
}

// tail returns the end of the log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// checkLog fails for races and panics in the log.
func (p *process) checkLog(t *testing.T) {
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Error(err)
	}
	for _, sign := range []string{"WARNING: DATA RACE", "handler panicked", "http: panic serving", "goroutine 1 [",
		"fatal error:"} {
		if at := bytes.Index(text, []byte(sign)); at >= 0 {
			t.Errorf("in the server's log:\n%s", text[max(0, at-500):min(len(text), at+3000)])
		}
	}
}
