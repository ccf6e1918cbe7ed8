package shadow

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

// TestWrongAnswersAreFoundAndMinimised asks a Berth that loses a provider if two parameters have certain values.
func TestWrongAnswersAreFoundAndMinimised(t *testing.T) {
	const whole = `{"resource_providers": [{"uuid": "a", "generation": 1}, {"uuid": "b", "generation": 2}]}`
	s := newSite(t, jsonAnswer(whole), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if strings.Contains(q.Get("required"), "CUSTOM_BAD") && q.Get("member_of") != "" {
			jsonAnswer(`{"resource_providers": [{"uuid": "b", "generation": 2}]}`)(w, r)
			return
		}
		jsonAnswer(`{"resource_providers": [{"uuid": "b", "generation": 2}, {"uuid": "a", "generation": 1}]}`)(w, r)
	}))
	const target = "/resource_providers?name=x&required=HW_A,CUSTOM_BAD,HW_B&in_tree=" +
		"0f0e0d0c-0000-0000-0000-000000000001&member_of=in:p,q&resources=VCPU:1"
	if status, body := s.get(target); status != http.StatusOK || body != whole {
		t.Errorf("the client gets %d %s", status, body)
	}
	s.get("/resource_providers")
	p := s.answered(2)
	if p.Equal != 1 || len(p.Differences) != 1 {
		t.Fatalf("%+v", p)
	}
	d := p.Differences[0]
	if d.Smallest != "/resource_providers?required=CUSTOM_BAD&member_of=q" || d.Target != target ||
		d.Version != "placement 1.39" {
		t.Errorf("%+v", d)
	}
	if len(d.Lines) != 1 || !strings.Contains(d.Lines[0], `an item is missing: {"generation":1,"uuid":"a"}`) {
		t.Errorf("%q", d.Lines)
	}
	s.stop()
	text, err := os.ReadFile(s.report)
	if err != nil || strings.Contains(string(text), "secret-token") {
		t.Errorf("%v: the report has the token: %s", err, text)
	}
	report, err := ReadReport(s.report)
	var out strings.Builder
	if err == nil {
		err = report.Print(&out)
	}
	if err != nil || !strings.Contains(out.String(), "1. GET /resource_providers?required=CUSTOM_BAD&member_of=q\n") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestInjectedFaults damages one part of Berth's answers at a time; each damage must be found.
func TestInjectedFaults(t *testing.T) {
	const right = `{"allocation_requests": [{"allocations": {"a": {"resources": {"VCPU": 1}}}, "mappings": {"": ["a"]}},` +
		`{"allocations": {"b": {"resources": {"VCPU": 1}}}, "mappings": {"": ["b"]}}], "provider_summaries": {` +
		`"a": {"resources": {"VCPU": {"capacity": 4, "used": 0}}, "traits": ["T"], "root_provider_uuid": "a"}, ` +
		`"b": {"resources": {"VCPU": {"capacity": 4, "used": 1}}, "traits": [], "root_provider_uuid": "b"}}}`
	damage := map[string]func(http.Header, *int, string) string{
		"status":  func(_ http.Header, status *int, body string) string { *status = 503; return body },
		"missing": func(http.Header, *int, string) string { return `{"allocation_requests": [], "provider_summaries": {}}` },
		"used": func(_ http.Header, _ *int, body string) string {
			return strings.ReplaceAll(body, `"used": 1`, `"used": 2`)
		},
		"twice": func(_ http.Header, _ *int, body string) string {
			return strings.ReplaceAll(body, `"b": {"resources": {"VCPU": 1}}}, "mappings": {"": ["b"]}`,
				`"a": {"resources": {"VCPU": 1}}}, "mappings": {"": ["a"]}`)
		},
		"trait": func(_ http.Header, _ *int, body string) string { return strings.ReplaceAll(body, `"T"`, ``) },
		"amount": func(_ http.Header, _ *int, body string) string {
			return strings.ReplaceAll(body, `"VCPU": 1}`, `"VCPU": 2}`)
		},
		"member":    func(_ http.Header, _ *int, body string) string { return strings.Replace(body, "{", `{"more": 1,`, 1) },
		"cut":       func(_ http.Header, _ *int, body string) string { return body[:len(body)-1] },
		"empty":     func(http.Header, *int, string) string { return "" },
		"media":     func(h http.Header, _ *int, body string) string { h.Set("Content-Type", "text/plain"); return body },
		"version":   func(h http.Header, _ *int, body string) string { h.Set("Openstack-Api-Version", "x"); return body },
		"modified":  func(h http.Header, _ *int, body string) string { h.Del("Last-Modified"); return body },
		"no-cache":  func(h http.Header, _ *int, body string) string { h.Set("Cache-Control", "no-cache"); return body },
		"not found": func(_ http.Header, status *int, _ string) string { *status = 404; return `{"errors": []}` },
	}
	answer := func(w http.ResponseWriter, change func(http.Header, *int, string) string) {
		h, status, body := w.Header(), 200, right
		h.Set("Content-Type", "application/json")
		h.Set("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT")
		if change != nil {
			body = change(h, &status, body)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) }),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, damage[r.URL.Query().Get("damage")]) }))
	for name := range damage {
		s.get("/allocation_candidates?resources=VCPU:1&damage=" + url.QueryEscape(name))
		// Each damage is a kind of its own, or is counted with another one at the same place: both are found.
		s.until(name+" is found", func() bool {
			p := s.shadow.recorder.state()
			n := int64(0)
			for _, d := range p.Differences {
				n += d.Count
			}
			return n == p.Forwarded
		})
	}
	s.get("/allocation_candidates?resources=VCPU:1")
	s.until("the right answer is equal", func() bool { return s.shadow.recorder.state().Equal == 1 })
}

// TestAWriteInBetween asks servers whose answers change: at each request, or once.
func TestAWriteInBetween(t *testing.T) {
	var n atomic.Int64
	change := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jsonAnswer(fmt.Sprintf(`{"generation": %d}`, n.Add(1)))(w, r)
	})
	s := newSite(t, change, change)
	s.get("/resource_providers/a")
	if p := s.answered(1); p.NotCompared[changedAgain] != 1 {
		t.Errorf("%+v", p)
	}
	var written atomic.Bool
	later := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jsonAnswer(fmt.Sprintf(`{"written": %t}`, written.Swap(true)))(w, r)
	})
	s = newSite(t, later, jsonAnswer(`{"written": true}`))
	s.get("/resource_providers/a")
	if p := s.answered(1); p.Equal != 1 {
		t.Errorf("%+v", p)
	}
}

// TestBerthNeverDelaysClients answers clients while Berth hangs, panics and is flooded.
func TestBerthNeverDelaysClients(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Int64
	s := newSite(t, jsonAnswer(`{"a": 1}`), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		panic("broken")
	}))
	const reads = 2 * queueLength
	for range reads {
		if status, body := s.get("/traits"); status != 200 || body != `{"a": 1}` {
			t.Fatalf("%d %s", status, body)
		}
	}
	close(release)
	p := s.answered(reads)
	// Berth's first answer is given up after a while, so on a slow machine fewer reads find the queue full.
	if p.NotCompared[overloaded] == 0 || p.NotCompared[overloaded]+p.NotCompared[berthFailed] != reads {
		t.Errorf("%+v", p)
	}
	if left := s.shadow.waiting.Load(); left != 0 {
		t.Errorf("%d bytes are still reserved", left)
	}
}

// TestForwardsWithoutBerth forwards while Berth's Placement cannot be opened.
func TestForwardsWithoutBerth(t *testing.T) {
	s := newSite(t, jsonAnswer("{}"), nil)
	if status, _ := s.get("/traits"); status != 200 {
		t.Error(status)
	}
	if p := s.answered(1); p.NotCompared[notReady] != 1 {
		t.Errorf("%+v", p)
	}
	if status, body := s.get("/healthz"); status != 200 || !strings.Contains(body, `"berth_ready":false`) {
		t.Errorf("%d %s", status, body)
	}
}

// TestWritesAreNotRepeated counts what the original and Berth get for writes.
func TestWritesAreNotRepeated(t *testing.T) {
	var original, berth atomic.Int64
	s := newSite(t, counted(jsonAnswer("{}"), &original), counted(jsonAnswer("{}"), &berth))
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"} {
		r, err := http.NewRequestWithContext(t.Context(), method, s.server.URL+"/allocations", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	s.get("/traits")
	s.answered(1)
	if original.Load() != 7 || berth.Load() != 1 {
		t.Errorf("the original got %d requests, Berth %d", original.Load(), berth.Load())
	}
}

// TestLargeAnswers sends an answer that is larger than what is kept.
func TestLargeAnswers(t *testing.T) {
	text := `"` + strings.Repeat("x", maxCaptured) + `"`
	s := newSite(t, jsonAnswer(text), jsonAnswer(text))
	if _, body := s.get("/traits"); body != text {
		t.Errorf("%d bytes", len(body))
	}
	if p := s.answered(1); p.NotCompared[tooLarge] != 1 || s.shadow.waiting.Load() != 0 {
		t.Errorf("%+v", p)
	}
}

// TestLimitedCandidates asks for one candidate of two: another choice is known, and the trees of both choices are
// compared without the limit. There Berth has an answer that differs.
func TestLimitedCandidates(t *testing.T) {
	one := func(id string, used int) string {
		return fmt.Sprintf(`{"allocation_requests": [{"allocations": {"%[1]s": {"resources": {"VCPU": 1}}}}], `+
			`"provider_summaries": {"%[1]s": {"resources": {"VCPU": {"used": %[2]d}}, "root_provider_uuid": "%[1]s"}}}`, id,
			used)
	}
	answer := func(first string, used int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if tree := r.URL.Query().Get("in_tree"); tree != "" && r.URL.Query().Get("limit") == "" {
				jsonAnswer(one(tree, used))(w, r)
				return
			}
			jsonAnswer(one(first, 0))(w, r)
		}
	}
	const target = "/allocation_candidates?resources=VCPU:1&limit=1"
	s := newSite(t, answer("a", 0), answer("b", 0))
	s.get(target)
	if p := s.answered(1); p.Equal != 1 || p.Known["limit"] != 1 {
		t.Errorf("%+v", p)
	}
	s = newSite(t, answer("a", 0), answer("b", 1))
	s.get(target)
	s.until("the difference in a tree is found", func() bool { return len(s.shadow.recorder.state().Differences) > 0 })
	if d := s.shadow.recorder.state().Differences[0]; d.Smallest != "/allocation_candidates?in_tree=a" {
		t.Errorf("%+v", d)
	}
}

// TestReportContinues restarts a shadow, also of another original, and with a report that cannot be written.
func TestReportContinues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	s := newSiteWith(t, jsonAnswer(`{"a": 1}`), jsonAnswer(`{"a": 2}`), path)
	s.get("/traits")
	s.answered(1)
	s.stop()
	options := s.shadow.options
	again, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	if p := again.recorder.state(); p.Forwarded != 1 || len(p.Differences) != 1 || p.Differences[0].Count != 1 {
		t.Errorf("%+v", p)
	}
	if _, err := New(options); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), path) {
		t.Errorf("two shadows write one report: %v", err)
	}
	if err := again.recorder.close(); err != nil {
		t.Error(err)
	}
	options.Original = &url.URL{Scheme: "http", Host: "other:8778"}
	if _, err := New(options); !fault.Is(err, fault.Invalid) {
		t.Errorf("the report of another original is continued: %v", err)
	}
	options.Report = filepath.Join(path, "below-a-file")
	if _, err := New(options); err == nil {
		t.Error("a report that cannot be written is accepted")
	}
	for _, wrong := range []string{"host:8778", "ftp://host", "http://", "http://user:pw@host", "http://host/?a=b"} {
		of, err := url.Parse(wrong)
		if err != nil {
			continue
		}
		options.Original = of
		if _, err := New(options); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "pw@") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestManyDifferencesOfOneKind asks for many different objects that all differ: they are one entry.
func TestManyDifferencesOfOneKind(t *testing.T) {
	var asked atomic.Int64
	s := newSite(t, counted(jsonAnswer(`{"a": 1}`), &asked), jsonAnswer(`{"a": 2}`))
	const reads = enough + 30
	for i := range reads {
		s.get(fmt.Sprintf("/resource_providers/0f0e0d0c-0000-0000-0000-%012d/usages", i))
		s.answered(int64(i) + 1)
	}
	p := s.shadow.recorder.state()
	if len(p.Differences) != 1 || p.Differences[0].Count != reads {
		t.Errorf("%+v", p)
	}
	if n := asked.Load(); n > reads*(1+2*confirmations)+10 {
		t.Errorf("the original got %d requests", n)
	}
}

// TestAFullList reports kinds of differences until the list is full. The next kind is counted without minimising it,
// and the file has it when Run has ended.
func TestAFullList(t *testing.T) {
	var asked atomic.Int64
	s := newSite(t, counted(jsonAnswer(`{"a": 1}`), &asked), jsonAnswer(`{"a": 2}`))
	s.shadow.recorder.count(func(p *Report) {
		for i := range maxListed {
			p.Differences = append(p.Differences, Difference{Kind: fmt.Sprint(i)})
		}
	})
	s.get("/traits?name=in:A,B,C,D&associated=true")
	if p := s.answered(1); p.Unlisted != 1 || len(p.Differences) != maxListed {
		t.Errorf("%+v", p)
	}
	s.stop()
	if n := asked.Load(); n != 1+2*confirmations {
		t.Errorf("the original got %d requests", n)
	}
	if p, err := ReadReport(s.report); err != nil || p.Unlisted != 1 {
		t.Errorf("%+v %v", p, err)
	}
}

// TestDerivedQueriesAreNoReads lets the derived queries of a limited read fail: the read alone is counted.
func TestDerivedQueriesAreNoReads(t *testing.T) {
	s := newSite(t, jsonAnswer("{}"), jsonAnswer("{}"))
	one := job{target: "/traits", derived: true}
	s.shadow.guarded(t.Context(), one, func(context.Context, job) { panic("broken") })
	s.shadow.enqueue(make(chan job), one)
	s.original.Close()
	s.shadow.confirm(t.Context(), one)
	if p := s.shadow.recorder.state(); len(p.NotCompared) > 0 {
		t.Errorf("%+v", p.NotCompared)
	}
	one.derived = false
	s.shadow.confirm(t.Context(), one)
	if p := s.shadow.recorder.state(); p.NotCompared[askedInVain] != 1 {
		t.Errorf("%+v", p.NotCompared)
	}
}

// TestOwnWorkPauses checks that the shadow waits three times as long as its comparisons and the answers of the original
// to its own requests take, so that it leaves the processor and the original to the requests that it forwards.
func TestOwnWorkPauses(t *testing.T) {
	const took = 20 * time.Millisecond
	var mu sync.Mutex
	var begun []time.Time
	s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		begun = append(begun, time.Now())
		mu.Unlock()
		time.Sleep(took)
		jsonAnswer(`{"a": 1}`)(w, r)
	}), jsonAnswer(`{"a": 2}`))
	s.get("/traits?name=in:A,B&associated=true")
	s.answered(1)
	s.stop()
	if len(begun) < 1+2*confirmations {
		t.Fatalf("the original got %d requests", len(begun))
	}
	for i := 3; i < len(begun); i += 2 { // the first is the client's; then two for each question
		if pause := begun[i].Sub(begun[i-1]) - took; pause < workPause*took {
			t.Errorf("request %d came %s after an answer that took %s", i, pause, took)
		}
	}
	for took, want := range map[time.Duration]time.Duration{time.Millisecond: 3 * time.Millisecond,
		time.Second: maxComparePause} {
		if got := pauseAfterCompare(took); got != want {
			t.Errorf("%s after a comparison of %s, want %s", got, took, want)
		}
	}
}
