package trace

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/fault"
)

const (
	queueLength    = 4096 // spans that wait; more are dropped
	batchLength    = 512
	batchInterval  = time.Second // how long a span waits for others
	requestTimeout = 5 * time.Second
	warnInterval   = time.Minute // how often failures are logged
)

// Exporter sends spans to a collector, by OTLP over HTTP with JSON. Requests never wait for it: spans beyond its queue,
// and those that the collector does not accept, are dropped and counted.
type Exporter struct {
	url, service string
	log          *slog.Logger
	client       *http.Client

	queue   chan *span
	dropped atomic.Int64
	warned  time.Time
	stop    chan struct{}
	work    sync.WaitGroup
}

// NewExporter starts an exporter for a service. endpoint is the base URL of the collector, such as
// http://127.0.0.1:4318; spans are sent to /v1/traces there. Without an endpoint NewExporter returns nil, which exports
// nothing.
func NewExporter(endpoint, service string, log *slog.Logger) *Exporter {
	if endpoint == "" {
		return nil
	}
	e := &Exporter{url: strings.TrimSuffix(endpoint, "/") + "/v1/traces", service: service, log: log,
		client: &http.Client{Timeout: requestTimeout}, queue: make(chan *span, queueLength), stop: make(chan struct{})}
	e.work.Go(e.run)
	return e
}

// CheckEndpoint returns fault.Invalid if endpoint is not the URL of a collector.
func CheckEndpoint(endpoint string) error {
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fault.New(fault.Invalid, "%q is not an HTTP URL; write one such as "+
			"http://127.0.0.1:4318", endpoint)
	}
	return nil
}

// add queues a span that has ended.
func (e *Exporter) add(s *span) {
	select {
	case e.queue <- s:
	default:
		e.dropped.Add(1)
	}
}

// Close sends the spans that are queued, for at most requestTimeout, and stops the exporter. It may be called on nil.
func (e *Exporter) Close() {
	if e == nil {
		return
	}
	close(e.stop)
	e.work.Wait()
}

// run sends batches until Close.
func (e *Exporter) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-e.stop:
			time.AfterFunc(requestTimeout, cancel)
		case <-ctx.Done():
		}
	}()
	for {
		select {
		case <-e.stop:
			for batch := e.collect(nil); len(batch) > 0 && ctx.Err() == nil; batch = e.collect(nil) {
				e.send(ctx, batch)
			}
			return
		case first := <-e.queue:
			select {
			case <-time.After(batchInterval):
			case <-e.stop:
			}
			e.send(ctx, e.collect([]*span{first}))
		}
	}
}

// collect appends the queued spans to a batch.
func (e *Exporter) collect(batch []*span) []*span {
	for len(batch) < batchLength {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// send sends one batch. A batch that is not accepted is dropped.
func (e *Exporter) send(ctx context.Context, batch []*span) {
	err := e.post(ctx, batch)
	if err != nil {
		e.dropped.Add(int64(len(batch)))
	}
	dropped := e.dropped.Load()
	if now := time.Now(); dropped > 0 && now.Sub(e.warned) >= warnInterval {
		e.warned = now
		e.dropped.Add(-dropped)
		e.log.Warn("spans dropped: the collector does not accept them; see [berth] otlp_endpoint", "url", e.url,
			"spans", dropped, "error", err)
	}
}

func (e *Exporter) post(ctx context.Context, batch []*span) error {
	body, err := json.Marshal(e.document(batch))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // so that the connection can be reused
	if response.StatusCode >= http.StatusMultipleChoices {
		return errors.New("the collector answered " + response.Status)
	}
	return nil
}

// document returns a batch as an ExportTraceServiceRequest in OTLP's JSON: ids are hexadecimal, 64-bit numbers are
// text.
func (e *Exporter) document(batch []*span) any {
	type object = map[string]any
	spans := make([]object, len(batch))
	for i, s := range batch {
		attributes := make([]object, len(s.attributes))
		for j, a := range s.attributes {
			value := object{"stringValue": a.text}
			if a.text == "" {
				value = object{"intValue": strconv.Itoa(a.number)}
			}
			attributes[j] = object{"key": a.key, "value": value}
		}
		spans[i] = object{"traceId": hex.EncodeToString(s.TraceID[:]), "spanId": hex.EncodeToString(s.SpanID[:]),
			"name": s.name, "kind": kindOf(s), "startTimeUnixNano": strconv.FormatInt(s.start.UnixNano(), 10),
			"endTimeUnixNano": strconv.FormatInt(s.end.UnixNano(), 10), "attributes": attributes}
		if s.parent != [8]byte{} {
			spans[i]["parentSpanId"] = hex.EncodeToString(s.parent[:])
		}
		if s.state != "" {
			spans[i]["traceState"] = s.state
		}
		if s.failed {
			spans[i]["status"] = object{"code": 2} // STATUS_CODE_ERROR
		}
	}
	service := object{"key": "service.name", "value": object{"stringValue": e.service}}
	return object{"resourceSpans": []object{{"resource": object{"attributes": []object{service}},
		"scopeSpans": []object{{"scope": object{"name": "github.com/openberth/berth"}, "spans": spans}}}}}
}

// kindOf returns SPAN_KIND_SERVER or SPAN_KIND_CLIENT.
func kindOf(s *span) int {
	if s.server {
		return 2
	}
	return 3
}
