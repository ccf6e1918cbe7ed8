package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

const traceID, clientSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
const sampled, unsampled = "00-" + traceID + "-" + clientSpan + "-01", "00-" + traceID + "-" + clientSpan + "-00"

// Valid headers are read and written again; others are refused.
func TestTraceparent(t *testing.T) {
	for text, want := range map[string]string{
		sampled: sampled, unsampled: unsampled,
		"00-" + traceID + "-" + clientSpan + "-ff":                 sampled, // unknown flags are not passed on
		"cc" + sampled[2:]:                                         sampled, // a version of the future
		"cc" + sampled[2:] + "-what-it-adds":                       sampled,
		"cc" + sampled[2:] + ".":                                   "",
		"ff" + sampled[2:]:                                         "",
		sampled + "-more":                                          "",
		strings.ToUpper(sampled):                                   "",
		"00-" + strings.Repeat("0", 32) + "-" + clientSpan + "-01": "",
		"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01":    "",
		"00-" + traceID[1:] + "g-" + clientSpan + "-01":            "",
		"00_" + traceID + "-" + clientSpan + "-01":                 "",
		"":           "",
		sampled[:54]: "",
	} {
		c, ok := Parse(text)
		if ok != (want != "") || ok && c.String() != want {
			t.Errorf("%q: %v %s, want %q", text, ok, c, want)
		}
	}
}

// collector is a collector of spans for tests.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []received
}

// received is a span in OTLP's JSON.
type received struct {
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	TraceState   string `json:"traceState"`
	Name         string `json:"name"`
	Kind         int    `json:"kind"`
	Start        string `json:"startTimeUnixNano"`
	End          string `json:"endTimeUnixNano"`
	Attributes   []struct {
		Key   string `json:"key"`
		Value struct {
			StringValue, IntValue string
		} `json:"value"`
	} `json:"attributes"`
	Status struct {
		Code int `json:"code"`
	} `json:"status"`
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var document struct {
			ResourceSpans []struct {
				Resource struct {
					Attributes []struct {
						Key   string
						Value struct{ StringValue string }
					}
				}
				ScopeSpans []struct{ Spans []received }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&document); err != nil || r.URL.Path != "/v1/traces" ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range document.ResourceSpans {
			if of.Resource.Attributes[0].Value.StringValue != "berth-test" {
				t.Errorf("resource: %+v", of.Resource)
			}
			for _, scope := range of.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// A request with a traceparent gets a span of its own, its calls are children of it, and both are exported.
func TestSpansAreExported(t *testing.T) {
	c := newCollector(t)
	exporter := NewExporter(c.URL+"/", "berth-test", slog.New(slog.DiscardHandler))
	var forwarded http.Header
	h := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := httptest.NewRequest("PUT", "http://placement:8778/allocations/1", nil)
		done := Call(Carry(context.Background(), r.Context()), call)
		forwarded = call.Header
		done(http.StatusConflict)
		http.Error(w, "no", http.StatusServiceUnavailable)
	}), exporter)
	r := httptest.NewRequest("POST", "/v2.1/servers", nil)
	r.Header.Set("Traceparent", sampled)
	r.Header.Set("Tracestate", "vendor=1")
	h.ServeHTTP(httptest.NewRecorder(), r)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) // begins a trace
	r.Header.Set("Traceparent", unsampled)
	h.ServeHTTP(httptest.NewRecorder(), r) // is not exported
	if got := forwarded.Get("Traceparent"); !strings.HasPrefix(got, "00-"+traceID) || !strings.HasSuffix(got, "-00") ||
		strings.Contains(got, clientSpan) {
		t.Errorf("an unsampled trace is passed on as %q", got)
	}
	exporter.Close()
	if len(c.spans) != 4 {
		t.Fatalf("%d spans: %+v", len(c.spans), c.spans)
	}
	client, server, begun := c.spans[0], c.spans[1], c.spans[3]
	if server.TraceID != traceID || server.ParentSpanID != clientSpan || server.Kind != 2 || server.Name != "POST" ||
		server.Status.Code != 2 || server.TraceState != "vendor=1" || server.Start > server.End ||
		server.Attributes[2].Value.IntValue != "503" {
		t.Errorf("the span of the request: %+v", server)
	}
	if client.TraceID != traceID || client.ParentSpanID != server.SpanID || client.Kind != 3 || client.Status.Code != 2 ||
		client.Attributes[1].Value.StringValue != "placement" {
		t.Errorf("the span of the call: %+v", client)
	}
	if begun.TraceID == traceID || begun.ParentSpanID != "" || len(begun.TraceID) != 32 {
		t.Errorf("the first span of a trace: %+v", begun)
	}
}

// Without an exporter a request with a traceparent is passed on and logged, and one without it is served unchanged.
func TestTracesWithoutExporter(t *testing.T) {
	var text bytes.Buffer
	log := Log(slog.New(slog.NewTextHandler(&text, nil))).With("service", "test")
	var got *http.Request
	call := httptest.NewRequest("GET", "/", nil)
	h := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		Call(r.Context(), call)(200)
		log.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelInfo, "request")
	}), nil)
	plain := httptest.NewRequest("GET", "/", nil)
	h.ServeHTTP(httptest.NewRecorder(), plain)
	if got != plain || len(call.Header) != 0 || strings.Contains(text.String(), "trace_id") {
		t.Errorf("a request without a trace: %v %s", call.Header, text.String())
	}
	traced := httptest.NewRequest("GET", "/", nil)
	traced.Header.Set("Traceparent", sampled)
	traced.Header.Set("Tracestate", "a=1")
	h.ServeHTTP(httptest.NewRecorder(), traced)
	passed, ok := Parse(call.Header.Get("Traceparent"))
	if !ok || !strings.HasPrefix(passed.String(), "00-"+traceID) || strings.Contains(passed.String(), clientSpan) ||
		call.Header.Get("Tracestate") != "a=1" {
		t.Errorf("%v", call.Header)
	}
	if want := "trace_id=" + traceID + " span_id=" + passed.String()[36:52]; !strings.Contains(text.String(), want) {
		t.Errorf("want %q in %s", want, text.String())
	}
	traced.Header.Add("Traceparent", sampled) // twice
	if h.ServeHTTP(httptest.NewRecorder(), traced); got != traced {
		t.Error("two traceparent headers were accepted")
	}
}

// A collector that fails delays no request. The lost spans are logged once.
func TestCollectorFails(t *testing.T) {
	release := make(chan struct{})
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-release
		http.Error(w, "no", http.StatusServiceUnavailable)
	}))
	defer failing.Close()
	var text bytes.Buffer
	exporter := NewExporter(failing.URL, "berth-test", slog.New(slog.NewTextHandler(&text, nil)))
	h := Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }),
		exporter)
	for range queueLength + 2*batchLength {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	close(release)
	exporter.Close()
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "spans dropped") ||
		!strings.Contains(got, "503 Service Unavailable") {
		t.Error(got)
	}
}

// A traced answer can be a stream.
func TestStreamsAreFlushed(t *testing.T) {
	exporter := NewExporter("http://127.0.0.1:1", "berth-test", slog.New(slog.DiscardHandler))
	defer exporter.Close()
	ended := make(chan struct{})
	s := httptest.NewServer(Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "line\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-ended
	}), exporter))
	defer s.Close()
	defer close(ended)
	client := &http.Client{Timeout: testenv.Patience}
	resp, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line := make([]byte, 5); second(io.ReadFull(resp.Body, line)) != nil || string(line) != "line\n" {
		t.Errorf("%q", line)
	}
}

func second[T any](_ T, err error) error { return err }

func TestCheckEndpoint(t *testing.T) {
	for endpoint, want := range map[string]bool{"http://127.0.0.1:4318": true, "https://c.example/otlp": true,
		"127.0.0.1:4318": false, "grpc://c:4317": false, "http://": false} {
		if err := CheckEndpoint(endpoint); (err == nil) != want || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	NewExporter("", "berth-test", nil).Close()
}
