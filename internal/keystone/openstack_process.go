package keystone

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// Server is an OpenStack service that runs beside a test, with its log. It ends with the test.
type Server struct {
	cmd *exec.Cmd
	log string
}

// Serve starts a service in a directory, which also contains its log, and waits until a URL of it returns status 200.
func Serve(t testing.TB, cmd *exec.Cmd, dir, url string) *Server {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own
	s := &Server{cmd: cmd, log: log.Name()}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		response, err := http.Get(url)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return s
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer: %v\n%s", url, err, s.Tail())
		}
	}
}

// Stop kills the service. A second Stop does nothing.
func (s *Server) Stop() {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
}

// Tail returns the end of the service's log.
func (s *Server) Tail() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// Free returns a port that is not in use; see testenv.FreeAddress.
func Free(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(testenv.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}
