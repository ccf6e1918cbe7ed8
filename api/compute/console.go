package compute

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// ConsoleLine is a part of an interactive console. Without any field it is a sign of life.
type ConsoleLine struct {
	Session string `json:"session,omitempty"` // of the first line: identifies the console
	Data    []byte `json:"data,omitempty"`
	Closed  string `json:"closed,omitempty"` // why the console has ended
}

// OpenConsole opens the serial console of a server, by id, and calls got with each line until the context ends, the
// console ends or got returns an error. It returns nil after a line with Closed. The client must have no timeout.
func (c *Client) OpenConsole(ctx context.Context, id string, got func(ConsoleLine) error) error {
	path := "/berth/v1/servers/" + url.PathEscape(id) + "/console"
	resp, err := c.REST.Send(ctx, http.MethodPost, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := rest.AnswerFault(http.MethodPost, path, resp); err != nil {
		return err
	}
	lines := json.NewDecoder(resp.Body)
	for {
		var line ConsoleLine
		if err := lines.Decode(&line); err != nil {
			return fault.New(fault.Unavailable, "the connection for the console ended: %w", err)
		}
		if err := got(line); err != nil || line.Closed != "" {
			return err
		}
	}
}

// TypeConsole sends what a user types into an open console, at most MaxTyped bytes. It returns fault.NotFound if the
// console is not open any more.
func (c *Client) TypeConsole(ctx context.Context, id, session string, data []byte) error {
	path := "/berth/v1/servers/" + url.PathEscape(id) + "/console/" + url.PathEscape(session)
	_, err := c.REST.Do(ctx, http.MethodPost, path, ConsoleLine{Data: data}, nil)
	return err
}

// RemoteConsole returns the address of a page that opens a console of a server once, by id. Protocol and type are such
// as vnc and novnc, or serial and serial. It returns fault.Conflict if the server does not run.
func (c *Client) RemoteConsole(ctx context.Context, id, protocol, typ string) (string, error) {
	var out struct {
		Console struct {
			URL string `json:"url"`
		} `json:"remote_console"`
	}
	body := map[string]any{"remote_console": map[string]string{"protocol": protocol, "type": typ}}
	_, err := c.REST.Do(ctx, http.MethodPost, "/v2.1/servers/"+url.PathEscape(id)+"/remote-consoles", body, &out)
	return out.Console.URL, err
}

// MaxTyped is the largest number of bytes of one TypeConsole.
const MaxTyped = 32 << 10
