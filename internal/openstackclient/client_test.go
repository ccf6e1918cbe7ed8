package openstackclient

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// A call prints what the program prints, to the same streams, and ends with its exit status.
func TestCallsDoWhatTheProgramDoes(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	for _, args := range [][]string{
		{"--version"},
		{"no", "such", "command"},
		{"--os-auth-type", "admin_token", "--os-token", "x", "--os-endpoint", "http://127.0.0.1:1", "server", "list"},
		{"server", "list"},
	} {
		var calls sync.WaitGroup
		want := result(t, exec.CommandContext(t.Context(), "openstack", args...))
		for range 2 { // at the same time
			calls.Go(func() {
				if got := result(t, Command(t, args...)); got != want {
					t.Errorf("%v:\n%+v\nthe program:\n%+v", args, got, want)
				}
			})
		}
		calls.Wait()
	}
}

// outcome is what a command printed, and its exit status.
type outcome struct {
	out, errs string
	status    int
}

// result runs a command without an account.
func result(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "LANG=C.UTF-8"}
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Error(err)
	}
	return outcome{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// A call has the environment, the directory, the umask and the standard input of its process.
func TestCallsHaveTheirOwnSurroundings(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "openstack")
	if err := os.WriteFile(program, []byte(Program(server.socket)), 0o700); err != nil {
		t.Fatal(err)
	}
	// Without arguments, the client reads commands. Its command "shell" runs a program.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "umask 027; exec ./openstack")
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "OF_THE_CALL=yes"}
	cmd.Stdin = strings.NewReader("shell umask\nshell pwd\nshell printenv OF_THE_CALL\n")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Join(strings.Fields(string(out)), " ") != "0027 "+dir+" yes" {
		t.Errorf("%v: %s", err, out)
	}
}

// A server that ends ends its calls.
func TestCallsEndWithTheirServer(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	socket := "berth-openstack-test-" + rand.Text()
	server, err := Start(exec.CommandContext(t.Context(), "sh", "-c", ServerScript(socket)))
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	call := exec.CommandContext(t.Context(), python, "-IS", "-c", Program(socket), "--os-auth-type", "admin_token",
		"--os-token", "x", "--os-endpoint", "http://"+silent.Addr().String(), "server", "list")
	var errs strings.Builder
	call.Stderr = &errs
	if err := call.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := silent.Accept() // the call waits for an answer now
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server.Stop()
	if err := call.Wait(); err == nil || !strings.Contains(errs.String(), "the server of the openstack client ended") {
		t.Errorf("%v: %s", err, errs.String())
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the process of the call still runs: %v", err)
	}
}
