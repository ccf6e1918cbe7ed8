package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

func request() Request {
	return Request{Service: "compute", Method: "POST",
		Path: "/proxy/v2.1/p/servers/abc/action", Matched: "/v2.1/servers/abc/action",
		Route: "/v2.1/servers/{id}/action", Action: "reboot", Rule: "os_compute_api:servers:reboot", Status: 202,
		Initiator: Resource{ID: "u1", Name: "ann", ProjectID: "p1", Host: &Host{Address: "10.0.0.1", Agent: "curl"}},
		IDs:       []string{"req-1"}, At: time.Date(2026, 11, 27, 1, 2, 3, 4000, time.UTC)}
}

func TestEvent(t *testing.T) {
	e := NewEvent(request())
	e.ID = "1"
	text, err := json.Marshal(e)
	const want = `{"typeURI":"http://schemas.dmtf.org/cloud/audit/1.0/event","id":"1","eventType":"activity",` +
		`"eventTime":"2026-11-27T01:02:03.000004+0000","action":"update/reboot","outcome":"success","initiator":{` +
		`"typeURI":"service/security/account/user","id":"u1","name":"ann","project_id":"p1","host":{` +
		`"address":"10.0.0.1","agent":"curl"}},"target":{"typeURI":"service/compute/v2.1/servers/action","id":"abc"},` +
		`"observer":{"typeURI":"service/compute","id":"target","name":"compute"},` +
		`"requestPath":"/proxy/v2.1/p/servers/abc/action","reason":{"reasonType":"HTTP","reasonCode":"202",` +
		`"policyId":"os_compute_api:servers:reboot"},"tags":["req-1"]}`
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	for _, c := range []struct {
		method, action string
		status         int
		gone           bool
		wantAction     string
		wantOutcome    string
	}{{"POST", "", 201, false, "create", "success"}, {"PUT", "", 200, false, "update", "success"},
		{"PATCH", "", 409, false, "update", "failure"}, {"DELETE", "", 401, false, "delete", "failure"},
		{"DELETE", "", 499, true, "delete", "unknown"}, {"POST", "x\xff", 500, false, "update/x\uFFFD", "failure"}} {
		r := request()
		r.Method, r.Action, r.Status, r.Gone = c.method, c.action, c.status, c.gone
		if e := NewEvent(r); e.Action != c.wantAction || e.Outcome != c.wantOutcome {
			t.Errorf("%+v: %s %s", c, e.Action, e.Outcome)
		}
	}
	if e := NewEvent(Request{Service: "image", Method: "POST"}); e.Initiator.ID != "unknown" || e.Target.ID != "none" {
		t.Errorf("%+v", e)
	}
}

// read returns the events of a file; every line must be one.
func read(t *testing.T, path string) (events []Event) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for in := bufio.NewScanner(file); in.Scan(); {
		var e Event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			t.Errorf("%q: %v", in.Text(), err)
			continue
		}
		events = append(events, e)
	}
	return events
}

func today(l *Log) string {
	return filepath.Join(l.dir, beginning+l.now().UTC().Format(time.DateOnly)+ending)
}

// TestManyWriters records from many goroutines of two logs in one directory. Each event is in the file when Record
// returns.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	logs := []*Log{New(dir, 1, slog.New(slog.DiscardHandler)), New(dir, 1, slog.New(slog.DiscardHandler))}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for range 20 {
				logs[i%2].Record(NewEvent(request()))
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, e := range read(t, today(logs[0])) {
		seen[e.ID] = true
	}
	if len(seen) != 400 {
		t.Errorf("%d events of 400", len(seen))
	}
	if info, err := os.Stat(today(logs[0])); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// TestLoss records while the directory cannot be written. Requests go on, and the loss is logged and recorded.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		dir := filepath.Join(t.TempDir(), "audit")
		l := New(dir, 0, slog.New(slog.NewTextHandler(&out, nil)))
		began := time.Now()
		for range 5 {
			l.Record(NewEvent(request()))
		}
		if took := time.Since(began); took > 5*patience {
			t.Errorf("five lost events took %s", took)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		// The rest of a line that another process did not finish.
		if err := os.WriteFile(today(l), []byte(`{"typeURI":`), 0o600); err != nil {
			t.Fatal(err)
		}
		l.Record(NewEvent(request()))
		text, err := os.ReadFile(today(l))
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if err != nil || len(lines) != 3 || !strings.Contains(lines[1], `"name":"5 events"`) ||
			!strings.Contains(lines[2], `"update/reboot"`) {
			t.Errorf("%v %q", err, lines)
		}
		if n := strings.Count(out.String(), "audit events lost"); n != 1 || !strings.Contains(out.String(), "no such file") {
			t.Errorf("%d: %s", n, out.String())
		}
	})
}

// TestAStalledDisk fills the memory for events that wait.
func TestAStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(t.TempDir(), 0, slog.New(slog.DiscardHandler))
		l.writing = true // as if write did not return
		began := time.Now()
		l.Record(NewEvent(request()))
		if took := time.Since(began); took != patience {
			t.Errorf("the request waited %s", took)
		}
		l.pending = make([]byte, maxPending)
		l.Record(NewEvent(request()))
		if l.lost != 1 || !errors.Is(l.why, errFull) {
			t.Errorf("%d lost: %v", l.lost, l.why)
		}
	})
}

// TestOldFiles keeps files for two days.
func TestOldFiles(t *testing.T) {
	dir := t.TempDir()
	l := New(dir, 2, slog.New(slog.DiscardHandler))
	l.now = func() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) }
	keep := []string{"audit-2026-11-25.jsonl", "audit-2026-11-26.jsonl", "audit-x.jsonl", "other-2026-01-01.jsonl"}
	for _, name := range append(keep, "audit-2026-11-24.jsonl", "audit-2025-12-31.jsonl") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.Record(NewEvent(request()))
	found, err := os.ReadDir(dir)
	if err != nil || len(found) != len(keep)+1 {
		t.Errorf("%v %v", found, err)
	}
}

// TestWithoutADirectory writes to the log of the service.
func TestWithoutADirectory(t *testing.T) {
	var out strings.Builder
	New("", 0, slog.New(slog.NewJSONHandler(&out, nil))).Record(NewEvent(request()))
	if !strings.Contains(out.String(), `"msg":"audit"`) || !strings.Contains(out.String(), "update/reboot") {
		t.Error(out.String())
	}
}

// full is a file on a disk with room for some bytes.
type full struct {
	file
	room *int
}

func (f full) Write(p []byte) (int, error) {
	n := min(len(p), *f.room)
	*f.room -= n
	written, err := f.file.Write(p[:n])
	if n < len(p) {
		err = errors.Join(err, syscall.ENOSPC)
	}
	return written, err
}

// TestAFullDisk writes two lines of three. Only the third one is lost, and the loss is reported without a new request.
func TestAFullDisk(t *testing.T) {
	l := New(t.TempDir(), 0, slog.New(slog.DiscardHandler))
	l.retry = time.Millisecond
	room := 12
	l.open = func(path string) (file, error) {
		f, err := openFile(path)
		return full{f, &room}, err
	}
	l.mu.Lock()
	l.pending, l.events = []byte("{\"a\":1}\n{}\n{\"b\":1}\n"), 3
	l.start()
	batch := l.batch
	l.mu.Unlock()
	<-batch
	l.mu.Lock()
	if room = 1000; l.lost != 1 || !errors.Is(l.why, syscall.ENOSPC) {
		t.Errorf("%d events lost: %v", l.lost, l.why)
	}
	l.mu.Unlock()
	testenv.Until(t, "the loss is reported", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.lost == 0
	})
	text, err := os.ReadFile(today(l))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(lines) != 4 || lines[1] != "{}" || !strings.Contains(lines[3], `"name":"1 events"`) {
		t.Errorf("%v %q", err, lines)
	}
}

// TestClose reports lost events and unknown callers, and waits for events for a limited time.
func TestClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := New(dir, 0, slog.New(slog.DiscardHandler))
	l.Record(NewEvent(request()))
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "at least 1 ") {
		t.Errorf("a lost event: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		l.CountUnknown("image", 401)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	events := read(t, today(l))
	if len(events) != 2 || events[0].Target.Name != "1 events" || events[1].Target.Name != "1000 requests" ||
		events[1].Reason.ReasonCode != "401" {
		t.Errorf("%+v", events)
	}
	stalled := New(dir, 0, slog.New(slog.DiscardHandler))
	stalled.closing = time.Millisecond
	stalled.open = func(string) (file, error) { select {} }
	stalled.Record(NewEvent(request()))
	if err := stalled.Close(); !errors.Is(err, errSlow) {
		t.Errorf("a stalled disk: %v", err)
	}
}
