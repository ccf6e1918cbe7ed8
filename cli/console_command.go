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
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// ServerConsoleCmd connects the terminal with the serial console of a server.
type ServerConsoleCmd struct {
	Server string        `arg:"" help:"Id or name of the server."`
	Linger time.Duration `help:"After the end of the input, end the connection when the guest has printed nothing for this time. Default: ${default}." default:"5s" placeholder:"TIME"`
}

// escape is the key that ends an interactive console: Ctrl-].
const escape = 0x1d

// Run connects the terminal with the console until the user presses Ctrl-], the input ends, or the console ends.
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
	in := consoleInput{client: client, server: found.ID, linger: c.Linger, session: make(chan string, 1),
		printed: make(chan struct{}, 1)}
	closed := ""
	go func() {
		if err := in.typeAll(ctx, g.stdin()); err != nil {
			cancel(err)
		}
	}()
	err = client.OpenConsole(ctx, found.ID, func(line compute.ConsoleLine) error {
		if line.Session != "" {
			fmt.Fprintf(g.stderr(), "Connected to the console of %s. Ctrl-] ends the connection.\r\n", found.Name)
			in.session <- line.Session
		}
		if len(line.Data) > 0 {
			in.notePrinted()
		}
		closed = line.Closed
		_, err := g.stdout().Write(line.Data)
		return err
	})
	restore()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errUserEnded):
		fmt.Fprintf(g.stderr(), "\nThe connection is closed.\n")
		return nil
	case cause != nil && g.untilInterrupted().Err() == nil:
		return cause
	case err != nil:
		return err
	}
	return fault.New(fault.Unavailable, "the console is closed: %s", closed)
}

var errUserEnded = errors.New("the user has pressed Ctrl-], or the input has ended")

// consoleInput sends the input of the user to an open console.
type consoleInput struct {
	client  *compute.Client
	server  string
	linger  time.Duration
	session chan string   // the id of the console when it is open
	printed chan struct{} // the guest has printed something
}

// notePrinted records that the guest has printed something.
func (c *consoleInput) notePrinted() {
	select {
	case c.printed <- struct{}{}:
	default:
	}
}

// typeAll sends the input when the console is open. It returns errUserEnded at Ctrl-], or when the input has ended and
// the guest has printed nothing for the linger time. It returns nil when the console is closed.
func (c *consoleInput) typeAll(ctx context.Context, in io.Reader) error {
	id := ""
	buffer := make([]byte, compute.MaxTyped)
	for {
		n, err := in.Read(buffer)
		typed, _, escaped := bytes.Cut(buffer[:n], []byte{escape})
		if id == "" && (len(typed) > 0 || err != nil) {
			select {
			case id = <-c.session:
			case <-ctx.Done():
				return nil
			}
		}
		if len(typed) > 0 {
			if err := c.client.TypeConsole(ctx, c.server, id, typed); fault.Is(err, fault.NotFound) {
				return nil // the stream has the reason
			} else if err != nil {
				return err
			}
		}
		if escaped {
			return errUserEnded
		}
		if err != nil {
			return c.awaitQuiet(ctx)
		}
	}
}

// awaitQuiet waits until the guest has printed nothing for the linger time, and returns errUserEnded. It returns nil
// when the context ends first.
func (c *consoleInput) awaitQuiet(ctx context.Context) error {
	quiet := time.NewTimer(c.linger)
	defer quiet.Stop()
	for {
		select {
		case <-c.printed:
			quiet.Reset(c.linger)
		case <-quiet.C:
			return errUserEnded
		case <-ctx.Done():
			return nil
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
		return nil, fault.New(fault.Unavailable, "the terminal cannot be prepared with stty: %w", err)
	}
	return func() { _, _ = stty(before) }, nil
}
