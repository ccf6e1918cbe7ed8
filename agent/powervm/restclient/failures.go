package restclient

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// CodeETag is the code of the fault Conflict when an object has another ETag than the one that was sent.
const CodeETag = "powervm.etag"

// failure is what the server answers to a request that failed. It has no part of the request: the server repeats the
// headers of the request in its answer, and they contain the session.
type failure struct {
	status      int
	reason      string // ReasonCode
	message     string
	transaction string // X-Transaction-ID: finds the request in the server's log
	entry       bool   // the body is an error entry
}

// readFailure reads an error entry, as far as the body is one (S5).
func readFailure(resp *http.Response, body []byte) *failure {
	f := &failure{status: resp.StatusCode, message: http.StatusText(resp.StatusCode),
		transaction: resp.Header.Get("X-Transaction-ID")}
	entry, err := uom.One[uom.HTTPError](body, "HttpErrorResponse")
	if err != nil {
		return f
	}
	f.entry = true
	f.reason = strings.TrimSpace(entry.Object.ReasonCode)
	if message := strings.TrimSpace(entry.Object.Message); message != "" {
		f.message = message
	}
	return f
}

// sessionReasons are the reason codes of a 403 for a missing and for an invalid session.
var sessionReasons = map[string]bool{"4": true, "5": true}

// sessionEnded reports whether the request failed because of its session (S3).
func (f *failure) sessionEnded() bool {
	return f.status == http.StatusUnauthorized || f.status == http.StatusForbidden && sessionReasons[f.reason]
}

// busyMessage matches the messages of a server that could not process the request now. The request had no effect.
var busyMessage = regexp.MustCompile(`HSCL3205|VIOS0014|(?i)busy`)

func (f *failure) busy() bool {
	return f.status == http.StatusServiceUnavailable ||
		f.status == http.StatusInternalServerError && busyMessage.MatchString(f.message)
}

// fault returns the fault for a request that is not repeated.
func (f *failure) fault(r request) error {
	kind, code, remedy := fault.Invalid, "", "correct the request"
	switch {
	case f.busy():
		kind, remedy = fault.Unavailable, "it is retried later"
	case f.sessionEnded():
		kind, remedy = fault.Forbidden, "the server refuses a new session: check the account in [powervm]"
	case f.status == http.StatusForbidden:
		kind, remedy = fault.Forbidden, "give the account the right to do this"
	case f.status == http.StatusNotFound && !f.entry: // of the web server, while the service starts
		kind, remedy = fault.Unavailable, "the service does not answer yet; it is retried"
	case f.status == http.StatusNotFound:
		kind, remedy = fault.NotFound, "check that the object exists"
	case f.status == http.StatusConflict:
		kind, remedy = fault.Conflict, "read the object again"
	case f.status == http.StatusPreconditionFailed:
		kind, code, remedy = fault.Conflict, CodeETag, "another client has changed the object; read it again"
	case f.status >= http.StatusInternalServerError:
		kind, remedy = fault.Internal, "read the log of the server"
	}
	what := f.message
	if f.reason != "" {
		what = fmt.Sprintf("%s (%s)", f.message, f.reason)
	}
	if f.transaction != "" {
		what += ", transaction " + f.transaction
	}
	return fault.New(kind, "%s %s failed with status %d: %s; %s", r.method, r.path, f.status, what,
		remedy).WithCode(code)
}
