package host

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// ConsoleRequest requests the end of what a guest has printed to its serial console. It is repeated in the lines until
// it is answered, or until its caller has stopped waiting.
type ConsoleRequest struct {
	ID    string `json:"id"`    // identifies the request
	Guest string `json:"guest"` // id of the guest, as in Server
	Bytes int    `json:"bytes"` // at most this number of bytes

	// Interactive requests that the agent attaches to an interactive console instead; see Client.ConsoleInput.
	Interactive bool `json:"interactive,omitempty"`
	// Diagnostics requests what the guest uses instead.
	Diagnostics bool `json:"diagnostics,omitempty"`
	// CrashDump requests that the guest gets a non-maskable interrupt instead, on which its kernel writes a crash dump.
	CrashDump bool `json:"crash_dump,omitempty"`
	// VNC requests, with Interactive, the display of the guest in place of its serial console: the protocol RFB.
	VNC bool `json:"vnc,omitempty"`
}

// ConsoleOutput is the answer to a ConsoleRequest.
type ConsoleOutput struct {
	Output  string `json:"output"`
	Refused string `json:"refused,omitempty"` // why there is no output; absent: there is
	// the hypervisor cannot answer such a request
	Unsupported bool         `json:"unsupported,omitempty"`
	Diagnostics *Diagnostics `json:"diagnostics,omitempty"` // if they are requested
}

// MaxConsole is the largest number of bytes of a ConsoleRequest.
const MaxConsole = 100 << 10

// PutConsole answers a console request. It returns fault.NotFound if no caller waits for the answer any more.
func (c Client) PutConsole(ctx context.Context, host, id string, out ConsoleOutput) error {
	_, err := c.REST.Do(ctx, http.MethodPut, path(host, "consoles", id), out, nil)
	return err
}

// ConsoleData is a part of an interactive console, in one of both directions.
type ConsoleData struct {
	Data   []byte `json:"data,omitempty"`
	Closed string `json:"closed,omitempty"` // why the console has ended; empty: it has not
}

// MaxConsoleData is the largest number of bytes of a ConsoleData.
const MaxConsoleData = 32 << 10

// ConsoleInput attaches to an interactive console, and calls got with what the user types until the context ends, the
// session ends or got returns an error. It returns fault.NotFound if the request is not open any more, and nil if the
// session has ended. A request can be attached to once.
func (c Client) ConsoleInput(ctx context.Context, host, id string, got func([]byte) error) error {
	p := path(host, "consoles", id, "input")
	resp, err := c.REST.Send(ctx, http.MethodGet, p, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := rest.AnswerFault(http.MethodGet, p, resp); err != nil {
		return err
	}
	lines := json.NewDecoder(resp.Body)
	for {
		var line ConsoleData
		if err := lines.Decode(&line); err != nil {
			return fault.New(fault.Unavailable, "the connection for the console ended: %w", err)
		}
		if line.Closed != "" {
			return nil
		}
		if len(line.Data) == 0 { // a sign of life
			continue
		}
		if err := got(line.Data); err != nil {
			return err
		}
	}
}

// SendConsole sends what a guest has printed to its interactive console, or that the console has ended. It returns
// fault.NotFound if the session has ended.
func (c Client) SendConsole(ctx context.Context, host, id string, data ConsoleData) error {
	_, err := c.REST.Do(ctx, http.MethodPost, path(host, "consoles", id, "output"), data, nil)
	return err
}
