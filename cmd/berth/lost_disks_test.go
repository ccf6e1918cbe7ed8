package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A server whose disk is on the host that is down is evacuated only with --lose-disk; one without a disk at once.
func TestEvacuationThatLosesADisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		disk    int
		disks   string // of the host
		flag    bool
		refused bool
	}{
		{10, "qcow2", false, true},
		{10, "", false, true}, // not reported
		{10, "qcow2", true, false},
		{10, "none", false, false},
		{0, "qcow2", false, false},
	} {
		posted := 0
		compute := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				posted++
				return
			}
			w.Header().Set("Content-Type", "application/json")
			var answer any = map[string]any{"hosts": []any{map[string]any{"host": "cmp1", "disk_images": c.disks}}}
			if strings.HasPrefix(r.URL.Path, "/v2.1/servers/") {
				answer = map[string]any{"server": map[string]any{"id": "10000000-0000-0000-0000-000000000001", "name": "web",
					"OS-EXT-SRV-ATTR:host": "cmp1", "flavor": map[string]any{"disk": c.disk}}}
			}
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				t.Error(err)
			}
		}))
		arguments := []string{"server", "evacuate", "10000000-0000-0000-0000-000000000001", "--compute-url", compute.URL}
		if c.flag {
			arguments = append(arguments, "--lose-disk")
		}
		var stdout, stderr bytes.Buffer
		status := run(arguments, &stdout, &stderr)
		compute.Close()
		if (status != 0) != c.refused || posted > 0 == c.refused {
			t.Errorf("%+v: status %d, %d requests: %s%s", c, status, posted, &stdout, &stderr)
		}
		if c.refused && !strings.Contains(stderr.String(), "would lose their disks: web (on cmp1)") {
			t.Errorf("%+v: %s", c, &stderr)
		}
	}
}
