package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// setModified sets Last-Modified and Cache-Control, in microversions that have them. The zero time means now.
func (c *call) setModified(at time.Time) {
	if c.version < sinceCacheHeaders {
		return
	}
	if at.IsZero() {
		at = c.server.now()
	}
	c.W.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
	c.W.Header().Set("Cache-Control", "no-cache")
}

// setLocation sets the Location header to the created resource. As in the original it is an absolute URL with the host
// of the request.
func (c *call) setLocation(path string) { c.W.Header().Set("Location", c.BaseURL()+path) }

// sendJSON answers with a status and a JSON document.
func (c *call) sendJSON(status int, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	c.send(status, data)
	return nil
}

// send writes a whole answer.
func (c *call) send(status int, body []byte) {
	h := c.W.Header()
	if body != nil {
		h.Set("Content-Type", edge.JSON)
	}
	if len(body) > 0 {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.W.WriteHeader(status)
	if len(body) > 0 {
		// An error means that the client has disconnected.
		_, _ = c.W.Write(body)
	}
}
