package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// Each command on servers requests its action of the Compute API, for each server in the given order.
func TestServerCommandsRequestTheirActions(t *testing.T) {
	t.Parallel()
	const first, second = "10000000-0000-0000-0000-000000000001", "10000000-0000-0000-0000-000000000002"
	for _, c := range []struct{ command, body string }{
		{"stop", `{"os-stop":null}`},
		{"start", `{"os-start":null}`},
		{"reboot", `{"reboot":{"type":"SOFT"}}`},
		{"confirm", `{"confirmResize":null}`},
		{"revert", `{"revertResize":null}`},
		{"evacuate", `{"evacuate":{}}`},
		{"shelve", `{"shelve":null}`},
		{"unshelve", `{"unshelve":null}`},
	} {
		var posted []string
		compute := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				posted = append(posted, r.URL.Path+" "+string(body))
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			id := r.URL.Path[len("/v2.1/servers/"):]
			if err := json.NewEncoder(w).Encode(map[string]any{"server": map[string]any{"id": id}}); err != nil {
				t.Error(err)
			}
		}))
		var stdout, stderr bytes.Buffer
		status := run([]string{"server", c.command, first, second, "--compute-url", compute.URL}, &stdout, &stderr)
		compute.Close()
		want := []string{"/v2.1/servers/" + first + "/action " + c.body, "/v2.1/servers/" + second + "/action " + c.body}
		if status != 0 || bytes.Count(stdout.Bytes(), []byte("  requested\n")) != 2 || stderr.Len() > 0 ||
			!slices.Equal(posted, want) {
			t.Errorf("%s: status %d, posted %q, want %q: %s%s", c.command, status, posted, want, &stdout, &stderr)
		}
	}
}
