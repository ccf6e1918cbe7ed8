package server

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	api "github.com/openberth/berth/api/placement"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/server/request"
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
	s.service.Bounds = request.NewBounds(defaultMaxBody)
	return s, api.AskQuery(ask).Encode()
}

// TestUndecidedSearchSaysWhatIsNotDecided: the answer names the groups and the provider.
func TestUndecidedSearchSaysWhatIsNotDecided(t *testing.T) {
	s, query := stuck()
	s.service.Now = func() time.Time { return time.Time{} } // the steps end the search, not the time
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, candidatesOf("1.39", query))
	var doc api.ErrorsDoc
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil || rec.Code != http.StatusServiceUnavailable {
		t.Fatalf("%d %v %s", rec.Code, err, rec.Body)
	}
	e := doc.Errors[0]
	if e.Code != api.CodeUndecided || !strings.Contains(e.Detail,
		"_9 fit together on the resource provider host (host)") {
		t.Errorf("%s: %s", e.Code, e.Detail)
	}
}

// TestCheapSearchIsAnsweredDuringLongOnes: a cheap query is answered while as many long searches as there are slots
// run and wait, of which none has ended.
func TestCheapSearchIsAnsweredDuringLongOnes(t *testing.T) {
	s, query := stuck()
	turns := request.SearchTurns()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	many := cap(s.service.Searches) + request.MostWaiting
	ended := make(chan int, many)
	for range many {
		go func() {
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, candidatesOf("1.39", query).WithContext(ctx))
			ended <- rec.Code
		}()
	}
	// Those that got neither a turn nor a place among the waiting end with 503.
	for range many - turns - request.MostWaiting {
		if code := <-ended; code != http.StatusServiceUnavailable {
			t.Errorf("status %d", code)
		}
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, candidatesOf("1.39", "resources=VCPU:1&limit=1"))
	if rec.Code != http.StatusOK {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if len(ended) == turns+request.MostWaiting {
		t.Error("the cheap query was answered only after all long ones")
	}
}

// A scheduler gets the candidates of the other hosts if one host cannot be decided; another client gets an error.
func TestSchedulerGetsTheDecidedHosts(t *testing.T) {
	s, query := stuck()
	s.service.Now = func() time.Time { return time.Time{} } // the steps end the search, not the time
	var rows []index.Row
	hard := s.service.Index.Snapshot()
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
