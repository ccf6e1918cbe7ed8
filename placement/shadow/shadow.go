// Package shadow runs Berth's Placement in the shadow of another one, the original, on the same database. Clients speak
// to the shadow, which forwards each request and its answer unchanged. Reads are also answered by Berth afterwards, and
// the answers are compared. A difference is asked again before it is reported, because of writes in between.
//
//	client ──▶ forwarder ──▶ original
//	               │ copy of the answers to GET
//	               ▼
//	           comparer: Berth's answer, on the same database ──▶ equal
//	               │ different
//	               ▼
//	           confirmer: asks both again, makes the request smaller ──▶ recorder ──▶ file
//
// Nothing in the second and third step delays a client: the queues are bounded, and what does not fit is counted and
// not compared. Berth gets only GETs, so it writes nothing.
package shadow

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/shadow/difference"
)

// Reasons why a read is not compared.
const (
	overloaded   = "too many at once"
	notReady     = "Berth was not ready"
	tooLarge     = "the answer was too large"
	incomplete   = "the answer was not sent completely"
	encoded      = "the answer was compressed"
	withBody     = "a GET with a body"
	berthFailed  = "Berth did not answer in time"
	askedInVain  = "the original did not answer again"
	changedAgain = "changed whenever it was asked again"
	tokenExpired = "the token was not valid any more"
)

// Berth is Berth's Placement on the database of the original.
type Berth struct {
	Handler     http.Handler
	Synchronize func(context.Context) error // returns when the writes of others so far are in the index
	Limit       int                         // [placement] max_allocation_candidates; 0: none
}

// Options configures a Shadow.
type Options struct {
	Original *url.URL
	Report   string // the file
	Log      *slog.Logger
	Times    Times
	Now      func() time.Time // nil: time.Now
}

// Times are the waits of a Shadow. DefaultTimes are those of the program.
type Times struct {
	Answer time.Duration // how long Berth, or the original when it is asked again, may take
	Pause  time.Duration // between the requests with which the shadow itself asks the original
	Settle time.Duration // between the attempts to confirm a difference
	Write  time.Duration // between writes of the report
	Reopen time.Duration // between the attempts to open Berth's Placement
}

// DefaultTimes returns the waits of the program.
func DefaultTimes() Times {
	return Times{Answer: 30 * time.Second, Pause: 50 * time.Millisecond, Settle: time.Second, Write: 5 * time.Second,
		Reopen: 10 * time.Second}
}

const (
	queueLength   = 256 // answers that wait to be compared
	confirmLength = 64  // differences that wait to be confirmed
)

// Shadow is the http.Handler for the clients of the original.
type Shadow struct {
	options  Options
	forward  *forwarder
	original *http.Client // for the requests of the shadow itself
	waiting  atomic.Int64
	compared chan job
	doubted  chan job
	berth    atomic.Pointer[Berth]
	recorder *recorder
	asked    time.Duration // how long the last request of the confirmer to the original took
}

// job is a read that the original has answered.
type job struct {
	target  string // path and query, as the client sent them
	host    string
	header  http.Header
	answer  difference.Answer
	derived bool // the shadow made it from a limited query
}

// New returns a Shadow. It returns fault.Invalid for a wrong URL, fault.Conflict if another shadow writes the report,
// and an error if it cannot be written.
func New(options Options) (*Shadow, error) {
	of := *options.Original
	if of.Scheme != "http" && of.Scheme != "https" || of.Host == "" || of.RawQuery != "" || of.User != nil {
		return nil, fault.New(fault.Invalid, "--of %s: not the URL of a Placement; write it as http://HOST:8778",
			of.Redacted())
	}
	of.Path, of.RawPath = strings.TrimRight(of.Path, "/"), ""
	options.Original = &of
	if options.Now == nil {
		options.Now = time.Now
	}
	r, err := newRecorder(options.Report, of.String(), options.Now)
	if err != nil {
		return nil, err
	}
	s := &Shadow{options: options, recorder: r, original: &http.Client{Transport: newTransport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		compared: make(chan job, queueLength), doubted: make(chan job, confirmLength)}
	s.forward = newForwarder(&of, newConnections(), options.Log, s.capture)
	return s, nil
}

// ServeHTTP forwards a request. /healthz is the shadow's own: its state and its counts.
func (s *Shadow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		s.health(w)
		return
	}
	s.recorder.forwarded()
	s.forward.proxy.ServeHTTP(w, r)
}

func (s *Shadow) health(w http.ResponseWriter) {
	p := s.recorder.state()
	p.Differences, p.Original = nil, "" // the address of the original is for administrators
	text, _ := json.Marshal(map[string]any{"status": "ok", "shadow": p, "berth_ready": s.berth.Load() != nil})
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // an error means that the client has left
}

// capture keeps a copy of the answer to a GET.
func (s *Shadow) capture(r *http.Response) {
	ask := r.Request
	if ask.Method != http.MethodGet {
		return
	}
	switch {
	case s.berth.Load() == nil:
		s.recorder.notCompared(notReady)
		return
	case ask.ContentLength != 0:
		s.recorder.notCompared(withBody)
		return
	case !isIdentity(r.Header):
		s.recorder.notCompared(encoded)
		return
	}
	one := job{target: s.targetOf(ask.URL), host: ask.Host, header: ask.Header.Clone()}
	r.Body = &captured{ReadCloser: r.Body, waiting: &s.waiting,
		answer: difference.Answer{Status: r.StatusCode, Header: r.Header.Clone()},
		done: func(a difference.Answer, failed string) {
			if failed != "" {
				s.recorder.notCompared(failed)
				return
			}
			one.answer = a
			s.enqueue(s.compared, one)
		}}
}

// targetOf returns the path and the query that the client sent.
func (s *Shadow) targetOf(u *url.URL) string {
	return strings.TrimPrefix(u.RequestURI(), s.options.Original.EscapedPath())
}

// enqueue puts a job into a queue if there is room. The job's answer is counted in waiting.
func (s *Shadow) enqueue(queue chan job, one job) {
	select {
	case queue <- one:
	default:
		s.release(one)
		s.skip(one, overloaded)
	}
}

// skip counts a read that is not compared. A derived query was counted with the limited one.
func (s *Shadow) skip(one job, reason string) {
	if !one.derived {
		s.recorder.notCompared(reason)
	}
}

func (s *Shadow) release(one job) { s.waiting.Add(-int64(len(one.answer.Body))) }

// Run compares answers and writes the report until ctx ends. open opens Berth's Placement; while it fails, requests are
// forwarded and not compared. Call Run once.
func (s *Shadow) Run(ctx context.Context, open func(context.Context) (*Berth, error)) {
	var all sync.WaitGroup
	all.Go(func() { s.writeReports(ctx) })
	if s.await(ctx, open) {
		all.Go(func() { s.work(ctx, s.compared, s.compare, pauseAfterCompare) })
		all.Go(func() { s.work(ctx, s.doubted, s.confirm, func(time.Duration) time.Duration { return 0 }) })
	}
	all.Wait()
	if err := s.recorder.write(); err != nil { // what was confirmed at the end
		s.options.Log.Error("report not written", "error", err)
	}
	if err := s.recorder.close(); err != nil {
		s.options.Log.Error("report not unlocked", "error", err)
	}
}

// await opens Berth's Placement and reports whether it did before ctx ended.
func (s *Shadow) await(ctx context.Context, open func(context.Context) (*Berth, error)) bool {
	failing := false
	for {
		b, err := open(ctx)
		if err == nil {
			s.berth.Store(b)
			s.options.Log.Info("comparing reads with the original placement", "original", s.options.Original.String())
			return true
		}
		if ctx.Err() == nil && !failing {
			s.options.Log.Error("placement not opened, reads are forwarded and not compared; will retry", "error", err)
		}
		failing = true
		if !sleep(ctx, s.options.Times.Reopen) {
			return false
		}
	}
}

// work does the jobs of a queue, and waits after each as long as pause returns for the time that it took.
func (s *Shadow) work(ctx context.Context, queue chan job, do func(context.Context, job),
	pause func(took time.Duration) time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-queue:
			began := time.Now()
			s.guarded(ctx, one, do)
			sleep(ctx, pause(time.Since(began)))
		}
	}
}

// guarded does a job. A panic costs that comparison and nothing else: clients must not notice it.
func (s *Shadow) guarded(ctx context.Context, one job, do func(context.Context, job)) {
	defer func() {
		s.release(one)
		if p := recover(); p != nil {
			s.skip(one, berthFailed)
			s.options.Log.Error("comparison failed", "target", one.target, "panic", p)
		}
	}()
	do(ctx, one)
}

// writeReports writes the report at intervals, and at the end.
func (s *Shadow) writeReports(ctx context.Context) {
	failing := false
	for more := true; more; {
		more = sleep(ctx, s.options.Times.Write)
		err := s.recorder.write()
		if err != nil && !failing {
			s.options.Log.Error("report not written, will retry", "error", err)
		}
		failing = err != nil
	}
}

// sleep waits and reports whether ctx did not end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
