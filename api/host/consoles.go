package host

import (
	"context"
	"net/http"
)

// ConsoleRequest requests the end of what a guest has printed to its serial console. It is repeated in the lines until
// it is answered, or until its caller has stopped waiting.
type ConsoleRequest struct {
	ID    string `json:"id"`    // identifies the request
	Guest string `json:"guest"` // id of the guest, as in Server
	Bytes int    `json:"bytes"` // at most this number of bytes
}

// ConsoleOutput is the answer to a ConsoleRequest.
type ConsoleOutput struct {
	Output  string `json:"output"`
	Refused string `json:"refused,omitempty"` // why there is no output; absent: there is
}

// MaxConsole is the largest number of bytes of a ConsoleRequest.
const MaxConsole = 100 << 10

// PutConsole answers a console request. It returns fault.NotFound if no caller waits for the answer any more.
func (c Client) PutConsole(ctx context.Context, host, id string, out ConsoleOutput) error {
	_, err := c.REST.Do(ctx, http.MethodPut, path(host, "consoles", id), out, nil)
	return err
}
