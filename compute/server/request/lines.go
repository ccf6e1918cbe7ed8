package request

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/openberth/berth/api/host"
)

// Lines is an answer of lines of JSON without an end.
type Lines struct {
	Check func() error // called when a line is encoded, and its error prevents the sending; nil: no check

	w       http.ResponseWriter
	control *http.ResponseController
}

// NewLines begins the answer.
func NewLines(c *Call) Lines {
	c.W.Header().Set("Content-Type", "application/x-ndjson")
	c.W.WriteHeader(http.StatusOK)
	return Lines{w: c.W, control: http.NewResponseController(c.W)}
}

// Flush sends what has been written, also if that are only the headers.
func (l Lines) Flush() error { return l.control.Flush() }

// Write sends one line.
func (l Lines) Write(line any) error {
	data, err := json.Marshal(line)
	if err == nil && l.Check != nil {
		err = l.Check()
	}
	if err != nil {
		return err
	}
	// The server's write timeout is for answers that end; here each line has its own. A transport without deadlines
	// returns an error, which is ignored.
	_ = l.control.SetWriteDeadline(time.Now().Add(3 * host.Heartbeat))
	if _, err := l.w.Write(append(data, '\n')); err != nil {
		return err
	}
	return l.control.Flush()
}
