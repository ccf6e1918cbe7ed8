package server

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// faultyStore is a store whose database has lost its file, or accepts no writes.
type faultyStore struct {
	Store
	lost, refused error
	checks        int
}

func (s *faultyStore) Available() error { return s.lost }

func (s *faultyStore) CheckWrites(time.Duration) error {
	s.checks++
	return s.refused
}

// TestHealthReportsDatabaseProblems checks that /healthz needs no token and returns why writes fail. When the
// database's file is lost, every other request fails too.
func TestHealthReportsDatabaseProblems(t *testing.T) {
	now, db := time.Now(), &faultyStore{}
	h := startWith(t, func(o *Options) {
		db.Store, o.Store = o.Store, db
		o.Now = func() time.Time { return now }
	})
	health := func(status int, reason string) {
		t.Helper()
		got := h.ask("GET", "/healthz", "", "X-Auth-Token", "")
		gotReason, _ := got.body["reason"].(string)
		if got.status != status || gotReason != reason || (got.body["status"] == "ok") != (status == http.StatusOK) {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
	health(http.StatusOK, "")
	db.refused = &fault.Error{Kind: fault.Unavailable, Msg: "its disk is full", Err: errors.New("SQLITE_FULL")}
	health(http.StatusOK, "") // the result is cached for edge.HealthAge
	now = now.Add(edge.HealthAge)
	health(http.StatusServiceUnavailable, "The database takes no writes: its disk is full.")
	if db.checks != 2 {
		t.Errorf("%d checks", db.checks)
	}
	db.refused = nil
	now = now.Add(edge.HealthAge)
	health(http.StatusOK, "")
	if got := h.ask("POST", "/healthz", ""); got.status != http.StatusMethodNotAllowed ||
		got.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", got.status, got.header)
	}
	if got := h.ask("GET", "/v2.1/servers", ""); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.text)
	}
	db.lost = fault.New(fault.Unavailable, "the database's file was deleted")
	now = now.Add(edge.HealthAge)
	health(http.StatusServiceUnavailable, "The database's file was deleted, moved or replaced; the service stops.")
	for _, path := range []string{"/v2.1/servers", "/", "/berth/v1/hosts"} {
		if got := h.ask("GET", path, ""); got.status != http.StatusServiceUnavailable || !strings.Contains(got.text,
			"was deleted") {
			t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
	if !strings.Contains(h.log.String(), "SQLITE_FULL") {
		t.Errorf("the log has no cause:\n%s", h.log)
	}
}
