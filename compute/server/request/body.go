package request

import (
	"encoding/json"
	"mime"
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// The maximum size of a request body, in bytes. The report of a large host has thousands of devices.
const (
	MaxBody   = 1 << 20
	MaxReport = rest.MaxBody

	BodyBudget = 2 * MaxReport // of all bodies that are read and handled at the same time
)

// Read decodes the request's body, JSON of at most limit bytes. Its faults have the status 400, 408, 413, 415 or 503.
func (c *Call) Read(limit int64, into any) error {
	if ct := c.R.Header.Get("Content-Type"); ct != "" {
		if media, _, err := mime.ParseMediaType(ct); err != nil || media != edge.JSON {
			return edge.StatusErrorf(http.StatusUnsupportedMediaType, "the body has type %q; send application/json", ct)
		}
	}
	data, err := c.ReadBody(limit)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return fault.New(fault.Invalid, "Malformed request body: it is empty; send JSON")
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.New(fault.Invalid, "Malformed request body: %w", err)
	}
	return nil
}
