package rest

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"

	"github.com/openberth/berth/fault"
)

// MaxBody is the maximum size in bytes of a request or answer body that a client or a server reads into memory.
const MaxBody = 64 << 20

// ReadJSON reads a request body of at most MaxBody bytes into v. It returns fault.Invalid, with a text for the client,
// for a content type other than JSON, for a body that is too large, and for a syntax error or trailing text.
func ReadJSON(r *http.Request, v any) error {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if media, _, err := mime.ParseMediaType(ct); err != nil || media != "application/json" {
			return fault.New(fault.Invalid, "the content type is %q; send application/json", ct)
		}
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err != nil {
		return fault.New(fault.Invalid, "cannot read the request body: %w", err)
	}
	if len(data) > MaxBody {
		return fault.New(fault.Invalid, "the request body is over %d MiB", MaxBody>>20)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fault.New(fault.Invalid, "Malformed JSON: %w", err)
	}
	return nil
}

// WriteJSON answers with a status and v as a JSON body.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot encode the answer as JSON: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the client has disconnected.
	_, _ = w.Write(data)
}
