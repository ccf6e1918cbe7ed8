package edge

import (
	"net/http"

	"github.com/openberth/berth/fault"
)

// Failure is an error with what an API needs to encode it.
type Failure struct {
	Err       error
	Status    int
	TimeUp    error // why the request reached its time limit; nil: it did not
	ForClient bool  // the text of Err is meant for the client, also if Status is 500 or more
}

// Message returns the text for the client. That of an internal error is only in the log, under the id of the request.
func (f Failure) Message(id string) string {
	switch {
	case f.TimeUp != nil && fault.CodeOf(f.Err) == "":
		return fault.TextOf(f.TimeUp)
	case f.Status == http.StatusInternalServerError:
		return "Internal error; the log of Berth has the reason under " + id + "."
	}
	return fault.TextOf(f.Err)
}
