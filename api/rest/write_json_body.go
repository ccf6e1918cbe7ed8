package rest

import (
	"encoding/json"
	"net/http"
)

// MaxBody is the maximum size in bytes of a request or answer body that a client or a server reads into memory.
const MaxBody = 64 << 20

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
