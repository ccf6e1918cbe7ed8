package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// The commands request the abort and the completion of the newest move of a server, and list moves.
func TestServerMigrationCommands(t *testing.T) {
	var calls []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodGet {
			calls = append(calls, r.Method+" "+r.URL.Path)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		switch id := r.URL.Query().Get("instance_uuid"); {
		case strings.HasSuffix(r.URL.Path, "/os-migrations") && id == "idle":
			fmt.Fprint(w, `{"migrations": []}`)
		case strings.HasSuffix(r.URL.Path, "/os-migrations"):
			fmt.Fprint(w, `{"migrations": [{"id": 7, "instance_uuid": "web", "status": "running",
				"migration_type": "live-migration", "source_compute": "cmp1", "dest_compute": "cmp2"}, {"id": 3}]}`)
		default:
			id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			fmt.Fprintf(w, `{"server": {"id": %q, "name": %q, "status": "MIGRATING"}}`, id, id)
		}
	}))
	defer service.Close()
	c := &portsCloud{Server: service}
	for line, want := range map[string]string{
		"server migration abort web":          "DELETE /v2.1/servers/web/migrations/7",
		"server migration force-complete web": "POST /v2.1/servers/web/migrations/7/action",
		"server migration abort idle":         "",
		"server migration list web":           "",
	} {
		calls = nil
		out, err := c.run(t, line)
		if (err != nil) != strings.Contains(line, "idle") || strings.Join(calls, ",") != want {
			t.Errorf("%s: %v, requests %q, want %q", line, err, calls, want)
		}
		if strings.Contains(line, "list") && !slices.Contains(strings.Fields(out), "live-migration") {
			t.Errorf("%s: %s", line, out)
		}
	}
}
