package server

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// The maximum size of a request body, in bytes. The report of a large host has thousands of devices.
const (
	maxBody   = 1 << 20
	maxReport = rest.MaxBody

	bodyBudget = 2 * maxReport // of all bodies that are read and handled at the same time
)

// read decodes the request's body, JSON of at most limit bytes. Its faults have the status 400, 408, 413, 415 or 503.
func (c *call) read(limit int64, into any) error {
	if ct := c.R.Header.Get("Content-Type"); ct != "" {
		if media, _, err := mime.ParseMediaType(ct); err != nil || media != "application/json" {
			return status(http.StatusUnsupportedMediaType, fault.Invalid,
				"the body has type %q; send application/json", ct)
		}
	}
	data, release, err := c.budget.Read(c.W, c.R, limit)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		defer release()
	case large:
		return status(http.StatusRequestEntityTooLarge, fault.Invalid, "the body is larger than %d bytes", limit)
	case errors.Is(err, rest.ErrSlowBody):
		return status(http.StatusRequestTimeout, fault.Invalid, "%w", err)
	case fault.Is(err, fault.Unavailable):
		return err
	default:
		return fault.New(fault.Invalid, "", "the body is incomplete: %w", err)
	}
	c.renewDeadline()
	if len(data) == 0 {
		return fault.New(fault.Invalid, "", "Malformed request body: it is empty; send JSON")
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.New(fault.Invalid, "", "Malformed request body: %w", err)
	}
	return nil
}

// renewDeadline starts the time limit of the call again, because the time to receive its body does not count.
func (c *call) renewDeadline() {
	ctx, cancel := rest.Renew(c.R.Context())
	c.R, c.end = c.R.WithContext(ctx), cancel
}
