package rest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/openberth/berth/fault"
)

// StatusOfKind returns the HTTP status with which Berth's APIs answer a fault of this kind. It returns 500 for Internal
// and for a kind that does not exist.
func StatusOfKind(kind fault.Kind) int {
	switch kind {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict, fault.NoCapacity:
		return http.StatusConflict
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// KindOfStatus returns the kind of the fault that Client returns for an answer with this HTTP status. It is the inverse
// of StatusOfKind, except that 409 is always Conflict, and has a kind for more statuses. A status without a kind is
// Internal.
func KindOfStatus(status int) fault.Kind {
	switch status {
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusUnsupportedMediaType,
		http.StatusRequestEntityTooLarge:
		return fault.Invalid
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fault.NotFound
	case http.StatusConflict:
		return fault.Conflict
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Forbidden
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout,
		http.StatusRequestTimeout:
		return fault.Unavailable
	}
	return fault.Internal
}

// Status is the error answer of a service. It is the cause of a fault that Client returns.
type Status struct {
	Method, Path string
	Code         int    // the HTTP status
	Title        string // such as "Conflict"
	Detail       string // the error text of the service
	ErrorCode    string // Placement's errors[].code, or empty
	RequestID    string
}

// Error returns the answer as one line for a log.
func (s *Status) Error() string {
	text := fmt.Sprintf("%s %s: %d %s: %s", s.Method, s.Path, s.Code, s.Title, s.Detail)
	if s.RequestID != "" {
		text += " (" + s.RequestID + ")"
	}
	return text
}

// StatusOf returns the error answer in a fault from Do; nil if there is none.
func StatusOf(err error) *Status {
	s, _ := errors.AsType[*Status](err)
	return s
}

func statusFault(request string, s *Status) error {
	return &fault.Error{Kind: KindOfStatus(s.Code), Request: request, Code: s.ErrorCode, Msg: s.Detail, Err: s}
}

// readStatus parses an error answer. The body may be Placement's {"errors": [{…}]}, Compute's
// {"badRequest": {"code": …, "message": …}}, or plain text.
func readStatus(method, path string, a Answer) *Status {
	s := &Status{Method: method, Path: path, Code: a.Status, Title: http.StatusText(a.Status),
		RequestID: cmp.Or(a.Header.Get("Openstack-Request-Id"), a.Header.Get("X-Openstack-Request-Id"))}
	var placement struct {
		Errors []struct{ Title, Detail, Code string }
	}
	if json.Unmarshal(a.Body, &placement) == nil && len(placement.Errors) > 0 {
		e := placement.Errors[0]
		s.Title, s.Detail, s.ErrorCode = e.Title, strings.TrimSpace(e.Detail), e.Code
		return s
	}
	var compute map[string]struct {
		Message string
		Code    int
	}
	if json.Unmarshal(a.Body, &compute) == nil {
		for title, e := range compute {
			if e.Message != "" {
				s.Title, s.Detail = title, e.Message
				return s
			}
		}
	}
	s.Detail = strings.TrimSpace(string(a.Body))
	if s.Detail == "" {
		s.Detail = s.Title
	}
	return s
}

// isObject reports whether the body of an error is a JSON object that has something.
func isObject(body []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(body, &object) == nil && len(object) > 0
}

// AnswerFault returns a fault for an answer with a status of 400 or more, after reading and closing its body; nil for
// another status.
func AnswerFault(method, path string, resp *http.Response) error {
	if resp.StatusCode < 400 {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody))
	resp.Body.Close()
	if err != nil {
		data = nil
	}
	answer := Answer{Status: resp.StatusCode, Header: resp.Header, Body: data}
	return statusFault(method+" "+path, readStatus(method, path, answer))
}
