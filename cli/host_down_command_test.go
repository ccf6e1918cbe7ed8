package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// A host can be declared dead if its agent has not reported for the time that compute states, or with --force.
func TestHostDown(t *testing.T) {
	for name, c := range map[string]struct {
		report  host.Report
		force   bool
		refused bool
	}{
		"reported recently":              {report: host.Report{Host: "cmp1", Quiet: 20}, refused: true},
		"reported recently, with force":  {report: host.Report{Host: "cmp1", Quiet: 20}, force: true},
		"silent":                         {report: host.Report{Host: "cmp1", Quiet: 181}},
		"silent by configuration":        {report: host.Report{Host: "cmp1", Quiet: 91, SilentAfter: 90}},
		"not silent by configuration":    {report: host.Report{Host: "cmp1", Quiet: 181, SilentAfter: 300}, refused: true},
		"connected, and silent":          {report: host.Report{Host: "cmp1", Quiet: 600, Connected: true}},
		"declared dead before":           {report: host.Report{Host: "cmp1", Quiet: 20, Dead: true}},
		"another host reported recently": {report: host.Report{Host: "cmp2", Quiet: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			down := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut && r.URL.Path == "/berth/v1/hosts/cmp1/down" {
					down++
					w.WriteHeader(http.StatusNoContent)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(map[string]any{"hosts": []host.Report{c.report}}); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			err := (&HostDownCmd{Host: "cmp1", Force: c.force}).Run(&Globals{ComputeURL: server.URL, Token: "admin"})
			if fault.Is(err, fault.Conflict) != c.refused || !c.refused && err != nil || c.refused == (down > 0) {
				t.Errorf("%v; declared dead %d times", err, down)
			}
		})
	}
}

// Forgetting a host waits with --wait until its agent counts as silent, but not for one that still reports.
func TestHostForgetWaits(t *testing.T) {
	for name, c := range map[string]struct {
		quiet   []float64 // in each answer
		refused bool
	}{
		"silent":         {quiet: []float64{90}},
		"silent soon":    {quiet: []float64{59.8, 59.9, 60.1}},
		"reports again":  {quiet: []float64{59.8, 59.9, 0}, refused: true},
		"does not exist": {},
	} {
		t.Run(name, func(t *testing.T) {
			looked, forgotten := 0, 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				answer := map[string]any{}
				if r.Method == http.MethodDelete {
					forgotten++
				} else {
					var list []host.Report
					if looked < len(c.quiet) {
						list = append(list, host.Report{Host: "cmp1", Quiet: c.quiet[looked]})
					}
					answer["hosts"] = list
					looked++
				}
				if err := json.NewEncoder(w).Encode(answer); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			err := (&HostForgetCmd{Host: "cmp1", Wait: true}).Run(&Globals{ComputeURL: server.URL, Token: "admin",
				Stdout: io.Discard, Stderr: io.Discard})
			if fault.Is(err, fault.Conflict) != c.refused || !c.refused && err != nil || c.refused == (forgotten > 0) ||
				looked < len(c.quiet) {
				t.Errorf("%v; forgotten %d times after %d looks", err, forgotten, looked)
			}
		})
	}
}
