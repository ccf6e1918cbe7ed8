package console

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/internal/browser"
	"github.com/openberth/berth/internal/testenv"
)

// liveCloud is a cloud that a test changes: Placement then sends an event.
type liveCloud struct {
	mu     sync.Mutex
	hosts  int
	text   string // condition of the first host
	refuse bool
	reads  int
	events chan struct{}
}

func (c *liveCloud) source() view.Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	s := made(c.hosts)
	if c.text != "" {
		s.Reports[0].Conditions = []condition.Condition{condition.New(condition.Sync, "", c.text)}
	}
	s.Fleet.Taken = time.Date(2026, 11, 27, 18, 0, c.reads, 0, time.UTC)
	return s
}

// set changes the cloud, and sends an event.
func (c *liveCloud) set(do func()) {
	c.mu.Lock()
	do()
	c.mu.Unlock()
	c.events <- struct{}{}
}

// serve sends the events of Placement.
func (c *liveCloud) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-c.events:
			event, _ := json.Marshal(doc{"action": "changed", "kind": "inventory", "object": doc{}})
			_, _ = w.Write([]byte("id: c1\ndata: " + string(event) + "\n\n"))
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// The rows of the fleet follow the cloud: a changed row is replaced in its place with the focus on the same device,
// others stay as they are, and a list that has changed is announced and not moved.
func TestFleetIsLive(t *testing.T) {
	testenv.Need(t, "chromium")
	c := &liveCloud{hosts: 30, events: make(chan struct{})}
	s := newSite(t, WithToken, c.source)
	s.apis["/berth/v1/events"] = http.HandlerFunc(c.serve)
	b := browser.Start(t)
	b.Size(1280, 800)
	s.signIn(b, "admin", "/fleet")
	b.Evaluate(`window.first = document.querySelector('[data-row="cmp-00001"]');
		window.second = document.querySelector('[data-row="cmp-00002"]');
		first.querySelectorAll("a.cell")[2].focus(); scrollTo(0, 40); ""`)
	b.Await("the stream", `document.querySelector("#read[data-live]") !== null`)
	c.set(func() { c.text = "the cable is cut; repair it" })
	row := `document.querySelector('[data-row="cmp-00001"]')`
	b.Await("the condition", row+`.innerText.includes("the cable is cut")`)
	for what, expression := range map[string]string{
		"the row was replaced":     `!first.isConnected`,
		"another row was not":      `second.isConnected`,
		"the focus":                row + `.querySelectorAll("a.cell")[2] === document.activeElement`,
		"the scroll position":      `scrollY === 40`,
		"the count of the marks":   `document.getElementById("sums").innerText.includes("3 with conditions")`,
		"the time of the read":     `document.querySelector("#read time").textContent > "18:00:01"`,
		"no note about the list":   `document.getElementById("moved").hidden`,
		"the page is not stale":    `!document.getElementById("read").hasAttribute("data-stale")`,
		"no row is there twice":    `document.querySelectorAll('[data-row="cmp-00001"]').length === 1`,
		"all rows are there":       `document.querySelectorAll("[data-row]").length === 30`,
		"the mark of the host":     row + `.querySelector(".mk.attn") !== null`,
		"the window is not loaded": `document.querySelector("tbody[data-from]").dataset.state === "full"`,
	} {
		if b.Evaluate(expression) != true {
			t.Errorf("not as expected: %s", what)
		}
	}
	b.Evaluate(`getSelection().selectAllChildren(` + row + `.querySelector(".cond")); window.first = ` + row + `; ""`)
	c.set(func() { c.text, c.hosts = "the cable is too short; replace it", 31 })
	b.Await("the note about the list", `!document.getElementById("moved").hidden`)
	if b.Evaluate(`first.isConnected && getSelection().toString().includes("the cable is cut")`) != true {
		t.Error("a row with selected text was replaced")
	}
	b.Evaluate(`getSelection().removeAllRanges(); ""`)
	c.set(func() {})
	b.Await("the row after the selection", row+`.innerText.includes("too short")`)
	check(t, b, s)
}

// A page that stays open does not keep its session from ending, and each session has a limited number of streams.
func TestLiveRequestsAreNoUse(t *testing.T) {
	s := newSite(t, WithToken, func() view.Source { return made(3) })
	v := s.visitor(t)
	v.signIn(map[string][]string{"token": {"admin"}})
	used := func() time.Time {
		s.console.sessions.mu.Lock()
		defer s.console.sessions.mu.Unlock()
		for _, one := range s.console.sessions.byID {
			return one.used
		}
		t.Fatal("there is no session")
		return time.Time{}
	}
	get := func(path string) string {
		_, _, text := v.page(v.Get(s.URL + path))
		return text
	}
	before := used()
	if text := get("/fleet/rows?live=1&from=0"); !strings.Contains(text, "cmp-00001") {
		t.Fatal(text)
	}
	if !used().Equal(before) {
		t.Error("the script's request counts as a use")
	}
	if get("/fleet?live=1"); used().Equal(before) {
		t.Error("a page does not count as a use")
	}
	for _, one := range s.console.sessions.byID {
		for range maxStreams {
			one.streams <- struct{}{}
		}
	}
	if text := get("/fleet/stream?live=1"); !strings.Contains(text, "close one") {
		t.Error(text)
	}
}

// Pages that stay open read in turn, and not before what was read is old.
func TestReadsForOpenPages(t *testing.T) {
	var group sync.WaitGroup
	reads := make(chan struct{}, 10)
	r := reading{group: &group, kept: &read.Copy{}}
	r.read = func(context.Context, Clients, func(int, int)) (view.Source, error) {
		reads <- struct{}{}
		return made(1), nil
	}
	turns := make(chan struct{}, 1)
	turns <- struct{}{}
	ended := make(chan error, 1)
	go func() {
		cloud, err := r.again(t.Context(), t.Context(), Clients{}, turns)
		if err == nil && cloud == nil {
			err = errReading
		}
		ended <- err
	}()
	select {
	case <-reads:
		t.Error("it was read out of turn")
	case <-time.After(100 * time.Millisecond):
	}
	<-turns
	if err := <-ended; err != nil || len(reads) != 1 || len(turns) != 0 {
		t.Errorf("%d reads, %d turns: %v", len(reads), len(turns), err)
	}
	soon, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := r.again(soon, t.Context(), Clients{}, turns); err == nil || len(reads) != 1 {
		t.Errorf("it was read again at once, %d times: %v", len(reads), err)
	}
	group.Wait()
}
