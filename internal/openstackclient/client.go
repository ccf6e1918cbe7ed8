// Package openstackclient runs Debian's openstack client for tests. A start of the program takes a second of CPU time,
// nearly all of it to load Python's modules. Here one process loads them and forks for each call, which then takes a
// tenth of a second. What runs in a call is the client as it is installed.
package openstackclient

import (
	"bufio"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// python is the interpreter for which Debian installs the client.
const python = "/usr/bin/python3"

var (
	//go:embed server.py
	serverText string
	//go:embed call.py
	callText string
)

// Command returns a command that runs the client with these arguments, and ends with its exit status. All commands of
// a test program share a server, which ends with the program.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), python, append([]string{"-IS", "-c", Program(server.socket)}, args...)...)
}

// Program returns the text of a program that does what `openstack` does, by the server with this socket.
func Program(socket string) string {
	return strings.ReplaceAll(callText, `"SOCKET"`, strconv.Quote(socket))
}

// ServerScript returns a shell script that runs a server with this socket, for Start. The socket is a name in the
// network namespace of the server.
func ServerScript(socket string) string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	return "exec " + python + " -c " + quote(serverText) + " " + quote(socket)
}

// Server is a running server. It ends at the latest with this process.
type Server struct {
	socket string
	cmd    *exec.Cmd
	in     io.Closer
}

// Start starts the command of a server and returns when it accepts calls.
func Start(cmd *exec.Cmd) (*Server, error) {
	var errs strings.Builder
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		in.Close()
		cmd.Wait()
		return nil, fmt.Errorf("the server of the openstack client does not start: %v\n%s", err, errs.String())
	}
	return &Server{cmd: cmd, in: in}, nil
}

// Stop ends the server and its calls.
func (s *Server) Stop() {
	s.in.Close()
	s.cmd.Wait()
}

// shared starts the server of this process once.
var shared = sync.OnceValues(func() (*Server, error) {
	if _, err := exec.LookPath("openstack"); err != nil {
		return nil, errors.New("the openstack client is not installed: run `make tools`")
	}
	socket := "berth-openstack-" + rand.Text()
	server, err := Start(exec.Command("sh", "-c", ServerScript(socket)))
	if err == nil {
		server.socket = socket
	}
	return server, err
})
