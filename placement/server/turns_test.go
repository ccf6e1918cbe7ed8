package server

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// stuck returns a server with a host on which a search takes seconds, and the query.
func stuck() (s *Server, query string) {
	s = fleet(1, 1)
	snapshot, ask := ct.Stuck()
	var rows []index.Row
	for tree := range snapshot.Trees() {
		rows = append(rows, snapshot.Tree(tree.Root)...)
	}
	show(s, rows)
	s.searches, s.turns = newSearchLimiter(), newSearchTurns()
	return s, api.AskQuery(ask).Encode()
}

// TestUndecidedSearchSaysWhatIsNotDecided: the answer names the groups and the provider.
func TestUndecidedSearchSaysWhatIsNotDecided(t *testing.T) {
	s, query := stuck()
	s.now = func() time.Time { return time.Time{} } // the steps end the search, not the time
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, candidatesOf("1.39", query))
	var doc api.ErrorsDoc
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil || rec.Code != http.StatusServiceUnavailable {
		t.Fatalf("%d %v %s", rec.Code, err, rec.Body)
	}
	e := doc.Errors[0]
	if e.Code != api.CodeUndecided || !strings.Contains(e.Detail, "_9 fit together on the resource provider host (host)") {
		t.Errorf("%s: %s", e.Code, e.Detail)
	}
}

// TestCheapSearchIsAnsweredDuringLongOnes: a cheap query is answered while as many long searches as there are slots
// run and wait, of which none has ended.
func TestCheapSearchIsAnsweredDuringLongOnes(t *testing.T) {
	s, query := stuck()
	turns := s.turns.free
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	many := cap(s.searches) + s.turns.most
	ended := make(chan int, many)
	for range many {
		go func() {
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, candidatesOf("1.39", query).WithContext(ctx))
			ended <- rec.Code
		}()
	}
	// Those that got neither a turn nor a place among the waiting end with 503.
	for range many - turns - s.turns.most {
		if code := <-ended; code != http.StatusServiceUnavailable {
			t.Errorf("status %d", code)
		}
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, candidatesOf("1.39", "resources=VCPU:1&limit=1"))
	if rec.Code != http.StatusOK {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if len(ended) == turns+s.turns.most {
		t.Error("the cheap query was answered only after all long ones")
	}
}

// TestFairQueue: the next turn is for the project that has had the least time.
func TestFairQueue(t *testing.T) {
	q := newFairQueue(1, 3)
	take := func(project string) error { return q.begin(t.Context(), project) }
	if err := take("greedy"); err != nil {
		t.Fatal(err)
	}
	order, begun := make(chan string, 10), 0
	enqueue := func(project string) {
		go func() {
			if err := take(project); err == nil {
				order <- project
			}
		}()
		for begun++; len(waitingOf(q)) < begun; time.Sleep(time.Millisecond) {
		}
	}
	enqueue("greedy")
	enqueue("greedy")
	enqueue("greedy")
	if err := take("greedy"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("one too many: %v", err)
	}
	take = func(project string) error { return q.resume(t.Context(), project) }
	enqueue("greedy") // one that has had a turn is not refused
	enqueue("other")
	var got []string
	last := "greedy"
	for range 5 {
		q.release(last, time.Second)
		last = <-order
		got = append(got, last)
	}
	if want := []string{"other", "greedy", "greedy", "greedy", "greedy"}; !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
	gone, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- q.begin(gone, "gone") }()
	for len(waitingOf(q)) == 0 {
		time.Sleep(time.Millisecond)
	}
	leave()
	if err := <-done; !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	q.release(last, time.Second)
	if q.free != 1 || len(q.active)+len(q.spent)+len(q.waiting) != 0 {
		t.Errorf("%+v", q)
	}
}

func waitingOf(q *fairQueue) []*waitingTurn {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.waiting)
}

// TestTheOriginOfASearch: a service may name the project for which it asks, and another caller may not.
func TestTheOriginOfASearch(t *testing.T) {
	for roles, want := range map[string]string{"admin": "tenant", "service": "tenant", "member": "p/u"} {
		c := &call{}
		c.R = httptest.NewRequest("GET", "/allocation_candidates", nil)
		c.R.Header.Set(api.ProjectHeader, "tenant")
		c.Who.Project, c.Who.User, c.Who.Roles = "p", "u", []string{roles}
		if got := c.share(); got != want {
			t.Errorf("%s: %s, want %s", roles, got, want)
		}
	}
}

// A scheduler gets the candidates of the other hosts if one host cannot be decided; another client gets an error.
func TestSchedulerGetsTheDecidedHosts(t *testing.T) {
	s, query := stuck()
	s.now = func() time.Time { return time.Time{} } // the steps end the search, not the time
	var rows []index.Row
	hard := s.index.Snapshot()
	for _, r := range hard.Tree("host") {
		rows = append(rows, r)
		if r.ID != "host" && r.ID != "dev0" {
			continue // the other host has one NIC, and so one candidate
		}
		r.ID, r.Root, r.Name = "b"+r.ID, "bhost", "b"+r.Name
		if r.Parent != "" {
			r.Parent = "bhost"
		}
		r.Inventories = maps.Clone(r.Inventories)
		for class := range r.Inventories {
			r.Inventories[class] = resource.Whole(1_000_000)
		}
		rows = append(rows, r)
	}
	show(s, rows)
	for _, scheduling := range []bool{false, true} {
		r, rec, want := candidatesOf("1.39", query+"&limit=1000"), httptest.NewRecorder(), http.StatusServiceUnavailable
		if scheduling {
			r.Header.Set(api.CandidatesHeader, api.ForScheduling)
			want = http.StatusOK
		}
		s.ServeHTTP(rec, r)
		var answer api.CandidatesDoc
		err := json.Unmarshal(rec.Body.Bytes(), &answer)
		if rec.Code != want || err != nil || scheduling != strings.Contains(answer.Undecided, "Not decided: whether") ||
			scheduling != (len(answer.Requests) == 1) {
			t.Errorf("for scheduling %v: %d %v %s", scheduling, rec.Code, err, rec.Body)
		}
	}
}
