package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Projects are read several at once, and listed in order; a service that fails for one of them hides no other one. The
// number of requests depends on the projects, not on their servers and the size of their ports.
func TestQuotaListReadsProjectsAtOnce(t *testing.T) {
	const projects = 40
	type doc = map[string]any
	var now, most atomic.Int64
	c := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, last := []any{}, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch {
		case last == "os-simple-tenant-usage":
			for i := 0; i < projects; i += 2 {
				list = append(list, doc{"tenant_id": fmt.Sprintf("p%02d", i)})
			}
			json.NewEncoder(w).Encode(doc{"tenant_usages": list}) // the client may be gone
			if got := r.Header.Get("OpenStack-API-Version"); got != "compute 2.1" {
				t.Errorf("the usage is requested at %q, where it has pages", got)
			}
		case r.URL.Path == "/v2.1/servers/detail":
			status := r.URL.Query().Get("status")
			for i := map[string]int{"BUILD": 1, "ERROR": 3}[status]; i < projects; i += 4 {
				list = append(list, doc{"id": fmt.Sprint(i), "tenant_id": fmt.Sprintf("p%02d", i),
					"created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z"})
			}
			json.NewEncoder(w).Encode(doc{"servers": list}) // as above
			if status != "BUILD" && status != "ERROR" {
				t.Errorf("servers of the status %q are read", status)
			}
		case last == "ports" || last == "quotas":
			json.NewEncoder(w).Encode(doc{last: list}) // the client may be gone
		case r.URL.Path == "/v2.1/os-quota-sets/p07/detail":
			w.WriteHeader(http.StatusForbidden)
		case last == "detail":
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(20 * time.Millisecond)
			now.Add(-1)
			json.NewEncoder(w).Encode(doc{"quota_set": doc{"cores": doc{"limit": 20, "in_use": 3}}}) // as above
		default:
			json.NewEncoder(w).Encode(doc{"quota": doc{"port": doc{"limit": 9, "used": 0}}}) // as above
		}
	})
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		c.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var out strings.Builder
	g := &Globals{ComputeURL: server.URL, NetworkURL: server.URL, Token: "t", Stdout: &out,
		OutputFlags: OutputFlags{Output: "json"}}
	err := (&quotaList{}).Run(g)
	var rows []projectLimit
	if json.Unmarshal([]byte(out.String()), &rows) != nil || len(rows) != projects-1 || err == nil {
		t.Fatalf("%v %s", err, out.String())
	}
	if n := requests.Load(); n != 5+2*projects {
		t.Errorf("%d requests", n)
	}
	for i := 1; i < len(rows); i++ {
		if rows[i-1].Project >= rows[i].Project {
			t.Errorf("%s before %s", rows[i-1].Project, rows[i].Project)
		}
	}
	if n := most.Load(); n < 2 || n > projectsAtOnce {
		t.Errorf("%d at once", n)
	}
}
