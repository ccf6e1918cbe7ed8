package server

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/placement/server/request"
)

// slow is a client that takes an hour to receive each chunk of an answer.
type slow struct{ *httptest.ResponseRecorder }

func (s slow) Write(data []byte) (int, error) {
	time.Sleep(time.Hour)
	return s.ResponseRecorder.Write(data)
}

// The time limit of a request ends when its answer begins: a large answer to a slow client is complete.
func TestLargeAnswersHaveNoTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, began := httptest.NewRecorder(), time.Now()
		rest.Limit(fleet(1, 20), 30*time.Second).ServeHTTP(slow{rec}, candidatesOf("1.39", wide))
		var got api.CandidatesDoc
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 || len(got.Requests) != 8000 {
			t.Errorf("%d, %v, %d candidates", rec.Code, err, len(got.Requests))
		}
		if took := time.Since(began); took < 2*time.Hour {
			t.Errorf("the answer was sent within %s, want two hours or more", took)
		}
	})
}

// A request that waits for a search slot is refused at its time limit. It is not recorded as one whose client
// disconnected.
func TestTimeLimitOfAWaitingSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleet(1, 1)
		s.service.Searches = make(request.Limiter, 1)
		s.service.Searches <- struct{}{}
		rec, began := httptest.NewRecorder(), time.Now()
		rest.Limit(s, 30*time.Second).ServeHTTP(rec, candidatesOf("1.39", "resources=VCPU:1"))
		if took := time.Since(began); rec.Code != 503 || !strings.Contains(rec.Body.String(),
			"not finished within 30s") ||
			took != 30*time.Second {
			t.Errorf("%d after %s: %s", rec.Code, took, rec.Body)
		}
		wantLines(t, scrape(t, s),
			`berth_placement_requests_total{method="GET",route="/allocation_candidates",status="503"} 1`)
	})
}
