package host

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

func client(t *testing.T, h http.HandlerFunc) Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return Client{REST: &rest.Client{Base: s.URL}}
}

func TestReportAndGuestUseTheirPaths(t *testing.T) {
	var paths []string
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	})
	if err := c.PutReport(t.Context(), Report{Host: "h"}); err != nil {
		t.Error(err)
	}
	if err := c.PutGuest(t.Context(), "h", "s", Guest{Phase: Gone}); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(paths) != "[PUT /berth/v1/hosts/h PUT /berth/v1/hosts/h/guests/s]" {
		t.Error(paths)
	}
}

// TestLateReports tests that a report which is older than the last one has an error of its own, different from a
// rejected one.
func TestLateReports(t *testing.T) {
	latest := "17"
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		if latest != "" {
			w.Header().Set(Latest, latest)
		}
		http.Error(w, "no", http.StatusConflict)
	})
	tell := func() (*Late, error) {
		err := c.PutGuest(t.Context(), "h", "s", Guest{Phase: Running, Instance: "i", Number: 3})
		late, _ := errors.AsType[*Late](err)
		return late, err
	}
	if late, err := tell(); late == nil || late.Number != 17 || !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	latest = "soon"
	if late, err := tell(); late != nil || !fault.Is(err, fault.Internal) {
		t.Errorf("%v", err)
	}
	latest = ""
	if late, err := tell(); late != nil || !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
}
