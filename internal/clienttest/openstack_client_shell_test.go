package clienttest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// shell is an interactive `openstack` client.
type shell struct {
	in    io.Writer
	out   chan string
	count int
}

// startShell starts a client as the administrator, with a microversion of Placement.
func startShell(t *testing.T, c *Cloud, region, version string) *shell {
	t.Helper()
	return startShellWith(t, append(c.Credentials(region), "OS_PLACEMENT_API_VERSION="+version)...)
}

// startShellWith starts a client with these environment variables.
func startShellWith(t *testing.T, environment ...string) *shell {
	t.Helper()
	program, err := exec.LookPath("openstack")
	if err != nil {
		t.Fatal("the openstack client is not installed: run `make tools`")
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(append(os.Environ(), environment...), "PYTHONUNBUFFERED=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, both, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = both, both
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	both.Close() // the process has its own copy
	o := &shell{in: in, out: make(chan string)}
	go func() {
		defer close(o.out)
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case o.out <- lines.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return o
}

// run executes a line and returns its output on both streams. An echo command marks the end of the output.
func (o *shell) run(t *testing.T, text string) string {
	t.Helper()
	o.count++
	mark := fmt.Sprintf("== %d ==", o.count)
	if _, err := fmt.Fprintf(o.in, "%s\nshell echo '%s'\n", text, mark); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	for expired := time.After(testenv.Patience); ; {
		select {
		case one, more := <-o.out:
			if !more {
				t.Fatalf("%s\nthe client ended: %s", text, output.String())
			}
			if one == mark {
				return strings.TrimSpace(output.String())
			}
			output.WriteString(one + "\n")
		case <-expired:
			t.Fatalf("%s\nnot finished: %s", text, output.String())
		}
	}
}
