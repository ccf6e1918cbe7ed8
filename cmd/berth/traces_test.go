package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// exported is a span that a collector has received.
type exported struct {
	service                       string
	TraceID, SpanID, ParentSpanID string
	Attributes                    []struct {
		Key   string
		Value struct{ StringValue string }
	}
}

func (e exported) path() string {
	for _, a := range e.Attributes {
		if a.Key == "url.path" {
			return a.Value.StringValue
		}
	}
	return ""
}

// spanCollector receives spans by OTLP over HTTP.
type spanCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []exported
}

func newSpanCollector(t *testing.T) *spanCollector {
	t.Helper()
	c := &spanCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var document struct {
			ResourceSpans []struct {
				Resource struct {
					Attributes []struct{ Value struct{ StringValue string } }
				}
				ScopeSpans []struct{ Spans []exported }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&document); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range document.ResourceSpans {
			for _, span := range of.ScopeSpans[0].Spans {
				span.service = of.Resource.Attributes[0].Value.StringValue
				c.spans = append(c.spans, span)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// of returns the spans of a trace.
func (c *spanCollector) of(trace string) []exported {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s exported) bool { return s.TraceID != trace })
}

// A trace that a client begins contains the request to compute and the claim in Placement that a later step makes for
// it. The log of Placement has the trace.
func TestTracesReachTheCollector(t *testing.T) {
	t.Parallel()
	collector := newSpanCollector(t)
	d := up(t, conf(t, machine(t, 1, 2), "otlp_endpoint = "+collector.URL), t.TempDir())
	flavor, err := d.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64})
	if err != nil {
		t.Fatal(err)
	}
	const trace, client = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	req, err := http.NewRequestWithContext(t.Context(), "POST", d.urls["compute"]+"/v2.1/servers", strings.NewReader(
		`{"server": {"name": "s", "imageRef": "", "networks": "none", "flavorRef": "`+flavor.ID+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Auth-Token": "admin", "Content-Type": "application/json",
		"OpenStack-API-Version": "compute 2.37", "Traceparent": "00-" + trace + "-" + client + "-01"} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatal(resp.Status, string(text), err)
	}
	// parent returns the span with this service and the beginning of this path, whose parent is one of parents.
	find := func(service, path string, parents ...string) (spans []string) {
		for _, s := range collector.of(trace) {
			if s.service == service && strings.HasPrefix(s.path(), path) && slices.Contains(parents, s.ParentSpanID) {
				spans = append(spans, s.SpanID)
			}
		}
		return spans
	}
	testenv.Until(t, "the trace has the claim", func() (bool, error) {
		request := find("berth-compute", "/v2.1/servers", client)
		call := find("berth-compute", "/allocations/", request...)
		return len(request) == 1 && len(find("berth-placement", "/allocations/", call...)) > 0, nil
	})
	if !strings.Contains(d.log.String(), "trace_id="+trace) {
		t.Errorf("the log does not have the trace:\n%s", d.log)
	}
	d.stop(t)
}
