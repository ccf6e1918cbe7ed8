package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// ServerConsoleCmd connects the terminal with the serial console of a server.
type ServerConsoleCmd struct {
	Server string `arg:"" help:"Id or name of the server."`
}

// escape is the key that ends an interactive console: Ctrl-].
const escape = 0x1d

// Run connects the terminal with the console until the user presses Ctrl-], or the console ends.
func (c *ServerConsoleCmd) Run(g *Globals) error {
	client := g.compute()
	found, err := client.Server(g.untilInterrupted(), c.Server)
	if err != nil {
		return err
	}
	untimed := *client.REST.HTTP
	untimed.Timeout = 0
	client.REST.HTTP = &untimed
	ctx, cancel := context.WithCancelCause(g.untilInterrupted())
	defer cancel(nil)
	restore, err := rawTerminal(g.stdin())
	if err != nil {
		return err
	}
	defer restore()
	session := make(chan string, 1)
	closed := ""
	go typeInto(ctx, cancel, client, found.ID, session, g.stdin())
	err = client.OpenConsole(ctx, found.ID, func(line compute.ConsoleLine) error {
		if line.Session != "" {
			fmt.Fprintf(g.stderr(), "Connected to the console of %s. Ctrl-] ends the connection.\r\n", found.Name)
			session <- line.Session
		}
		closed = line.Closed
		_, err := g.stdout().Write(line.Data)
		return err
	})
	restore()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errEscape):
		fmt.Fprintf(g.stderr(), "\nThe connection is closed.\n")
		return nil
	case cause != nil && g.untilInterrupted().Err() == nil:
		return cause
	case err != nil:
		return err
	}
	return fault.New(fault.Unavailable, "cli.console", "the console is closed: %s", closed)
}

var errEscape = errors.New("the user has pressed Ctrl-]")

// typeInto sends what the user types, when the console is open. It ends the context at Ctrl-] or after an error. After
// the end of the input the console stays open.
func typeInto(ctx context.Context, end context.CancelCauseFunc, client *compute.Client, server string,
	session <-chan string, in io.Reader) {
	id := ""
	buffer := make([]byte, compute.MaxTyped)
	for {
		n, err := in.Read(buffer)
		typed, _, escaped := bytes.Cut(buffer[:n], []byte{escape})
		if id == "" && len(typed) > 0 {
			select {
			case id = <-session:
			case <-ctx.Done():
				return
			}
		}
		if len(typed) > 0 {
			if err := client.TypeConsole(ctx, server, id, typed); err != nil {
				if !fault.Is(err, fault.NotFound) { // the stream has the reason
					end(err)
				}
				return
			}
		}
		if escaped {
			end(errEscape)
		}
		if escaped || err != nil {
			return
		}
	}
}

// rawTerminal makes a terminal pass on each key, also Ctrl-C. The returned function restores it and may be called
// several times. Another input than a terminal is not changed.
func rawTerminal(in io.Reader) (restore func(), err error) {
	file, ok := in.(*os.File)
	if !ok {
		return func() {}, nil
	}
	stty := func(arguments ...string) (string, error) {
		cmd := exec.Command("stty", arguments...)
		cmd.Stdin = file
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	before, err := stty("-g")
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return func() {}, nil // not a terminal
	}
	if err == nil {
		_, err = stty("raw", "-echo")
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cli.console", "the terminal cannot be prepared with stty: %w", err)
	}
	return func() { _, _ = stty(before) }, nil
}
