package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
)

func TestNamesText(t *testing.T) {
	for want, names := range map[string][]string{
		"a":                                {"a"},
		"web-1, web-2":                     {"web-2", "web-1"},
		"db, web-1 to web-3, web-9":        {"web-9", "web-3", "web-1", "db", "web-2"},
		"web-8 to web-11":                  {"web-10", "web-8", "web-9", "web-11"},
		"same, same":                       {"same", "same"},
		"web-99999999998, web-99999999999": {"web-99999999999", "web-99999999998"}, // too long for a number
	} {
		if got := namesText(names); got != want {
			t.Errorf("%v: %s, want %s", names, got, want)
		}
	}
}

func TestFailuresGroupsServersByFault(t *testing.T) {
	var list []compute.Server
	for _, name := range []string{"web-1", "web-2", "web-3"} {
		list = append(list, compute.Server{ID: "id-" + name, Name: name, Status: "ERROR",
			Fault: &compute.ServerFault{Message: "full"}})
	}
	list = append(list, compute.Server{Name: "web-4", Status: "ACTIVE"},
		compute.Server{ID: "5", Name: "web-5", Status: "ERROR", Fault: &compute.ServerFault{Message: "broken"}})
	got := failures(list).Error()
	if got != "3 servers (web-1 to web-3) are in ERROR: full; see `berth server why web-1`\n"+
		"server web-5 is in ERROR: broken; see `berth server why web-5`" {
		t.Error(got)
	}
	// Of two servers with one name, the id is shown.
	list = append(list, compute.Server{ID: "6", Name: "web-5", Status: "ACTIVE"})
	if got := failures(list[4:]).Error(); got != "server web-5 is in ERROR: broken; see `berth server why 5`" {
		t.Error(got)
	}
	if err := failures(list[3:4]); err != nil {
		t.Error(err)
	}
}

// All servers are tried. Each has a result, also as JSON, and the error has each failure.
func TestCommandOnSeveralServersTriesAll(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/v2.1/servers/")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPost && strings.HasPrefix(name, "busy"):
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"conflictingRequest": {"code": 409, "message": "it is moving"}}`))
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		default:
			if err := json.NewEncoder(w).Encode(map[string]any{"server": map[string]any{"id": name,
				"name": "n-" + name}}); err != nil {
				t.Error(err)
			}
		}
	}))
	defer server.Close()
	var out strings.Builder
	err := (&ServerActionCmd{Servers: []string{"a", "busy", "c"}, action: "os-stop"}).Run(&Globals{Stdout: &out,
		OutputFlags: OutputFlags{Output: "json"}, ComputeURL: server.URL, Token: "admin"})
	if err == nil || !strings.Contains(err.Error(), "busy: it is moving") ||
		!strings.Contains(err.Error(), "failed for 1 of 3 servers") {
		t.Error(err)
	}
	var results []serverResult
	if err := json.Unmarshal([]byte(out.String()), &results); err != nil || len(results) != 3 ||
		results[1] != (serverResult{"busy", "busy", "n-busy", "failed", "it is moving"}) ||
		results[2] != (serverResult{"c", "c", "n-c", "requested", ""}) {
		t.Errorf("%v %+v", err, results)
	}
}
