package request

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/store"
)

// Refuse returns the error for a refusal of a check.
func (c *Call) Refuse(r *edge.Refusal) error {
	switch r.Reason {
	case edge.LineTooLong:
		return edge.StatusErrorf(http.StatusRequestURITooLong, "the request line is over %d bytes", edge.MaxRequestLine)
	case edge.Unauthenticated:
		return &edge.StatusError{Status: http.StatusUnauthorized, Err: r.Err}
	case edge.NoRoute:
		return edge.StatusErrorf(http.StatusNotFound, "The resource could not be found.")
	case edge.NoMethod:
		return edge.StatusErrorf(http.StatusMethodNotAllowed, "The method %s is not allowed for this resource.",
			c.R.Method)
	case edge.WrongType:
		given := c.R.Header.Get("Content-Type")
		if media, _, _ := strings.Cut(given, ";"); media == "" {
			given = "None"
		}
		return edge.StatusErrorf(http.StatusUnsupportedMediaType, "The media type %s is not supported, use %s", given,
			edge.JSON)
	case edge.NotAcceptable:
		return edge.StatusErrorf(http.StatusNotAcceptable, "Only %s is provided", edge.JSON)
	case edge.NotAllowed:
		return edge.StatusErrorf(http.StatusForbidden, "Policy does not allow %s to be performed.", r.Rule)
	case edge.BodyTooLarge:
		return edge.StatusErrorf(http.StatusRequestEntityTooLarge, "the request body is over %d bytes", r.Limit)
	case edge.BodyTooSlow:
		return edge.StatusErrorf(http.StatusRequestTimeout, "%s", r.Err)
	case edge.BodyLost:
		return fault.New(fault.Invalid, "cannot read the request body: %w", r.Err)
	}
	return r
}

// Encode answers with an error. The client receives only the request id of an error of the service (5xx), unless its
// text is meant for the client.
func (c *Call) Encode(f edge.Failure) {
	entry := api.ErrorDoc{Status: f.Status, Title: http.StatusText(f.Status), Detail: fault.TextOf(f.Err),
		RequestID: c.ID}
	if f.Status >= http.StatusInternalServerError && !f.ForClient {
		entry.Detail = c.serverFailure(f)
	}
	if c.Version != nil && c.Microversion >= sinceErrorCodes {
		entry.Code = cmp.Or(fault.CodeOf(f.Err), api.CodeUndefined)
	}
	if fault.CodeOf(f.Err) == api.CodeVersion {
		entry.MinVersion, entry.MaxVersion = api.Oldest.String(), api.Latest.String()
	}
	var body any = api.ErrorsDoc{Errors: []api.ErrorDoc{entry}}
	switch f.Status {
	case http.StatusUnauthorized:
		body = c.unauthorizedDoc(entry.Detail)
	case http.StatusConflict:
		c.Service.Metrics.Conflict(cmp.Or(fault.CodeOf(f.Err), api.CodeUndefined))
	}
	h := c.W.Header()
	for _, name := range []string{"Last-Modified", "Cache-Control", "Location"} {
		h.Del(name)
	}
	if err := c.SendJSON(f.Status, body); err != nil {
		c.send(f.Status, nil)
	}
}

// serverFailure returns the detail of an error of the service.
func (c *Call) serverFailure(f edge.Failure) string {
	switch {
	case fault.CodeOf(f.Err) == store.CodeUnknownOutcome:
		return "The connection to the database was lost, or the time was up, at the last moment. " +
			"It is unknown whether the request took effect: read the resource before you repeat it. " +
			"See the log for " + c.ID + "."
	case f.TimeUp != nil:
		return fault.TextOf(f.TimeUp) + ". See the log for " + c.ID + "."
	}
	return "The service failed; see its log for " + c.ID + "."
}

// unauthorizedDoc returns the body of a 401 answer: that of OpenStack's noauth2 or, with Options.Challenge, that of its
// Keystone middleware. Neither is an ErrorsDoc.
func (c *Call) unauthorizedDoc(text string) Object {
	if c.Service.Challenge != "" {
		return Object{"error": Object{"code": http.StatusUnauthorized, "title": "Unauthorized", "message": text}}
	}
	return Object{"message": text, "code": "401 Unauthorized", "title": "Unauthorized"}
}
