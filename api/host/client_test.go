package host

import (
	"context"
	"errors"
	"fmt"
	"io"
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

func TestWatchReturnsEachLine(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/berth/v1/hosts/a%2Fb/assignments" || r.URL.Query().Get("since") != "7" ||
			r.URL.Query().Get("instance") != "i" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"revision": 8, "servers": []}`+"\n"+`{"revision": 9, "servers": [{"id": "s"}]}`+"\n")
	})
	var got []int64
	err := c.Watch(t.Context(), WatchRequest{Host: "a/b", Sender: Sender{Instance: "i"}, Since: 7},
		func(a Assignments) error {
			got = append(got, a.Revision)
			return nil
		})
	// The stream has no regular end: the server has disconnected.
	if !fault.Is(err, fault.Unavailable) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
	if fmt.Sprint(got) != "[8 9]" {
		t.Errorf("%v", got)
	}
}

func TestWatchEndsWithErrorOfReaderOrContext(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"revision": 1}`+"\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	enough := errors.New("enough")
	if err := c.Watch(t.Context(), WatchRequest{Host: "h", Sender: Sender{Instance: "i"}},
		func(Assignments) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Watch(ctx, WatchRequest{Host: "h", Sender: Sender{Instance: "i"}},
		func(Assignments) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestWatchReturnsInvalidLinesAndErrorStatus(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "nonsense") })
	if err := c.Watch(t.Context(), WatchRequest{Host: "h", Sender: Sender{Instance: "i"}},
		func(Assignments) error { return nil }); !fault.Is(err, fault.Internal) {
		t.Errorf("%v", err)
	}
	c = client(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no such host", http.StatusNotFound) })
	if err := c.Watch(t.Context(), WatchRequest{Host: "h", Sender: Sender{Instance: "i"}},
		func(Assignments) error { return nil }); !fault.Is(err, fault.NotFound) || fault.TextOf(err) != "no such host" {
		t.Errorf("%v", err)
	}
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

func TestAdmit(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("instance") != "first" {
			http.Error(w, "another agent serves host h", http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	if err := c.Admit(t.Context(), "h", Sender{Instance: "first"}); err != nil {
		t.Error(err)
	}
	if err := c.Admit(t.Context(), "h", Sender{Instance: "second"}); !fault.Is(err, fault.Conflict) ||
		fault.TextOf(err) != "another agent serves host h" {
		t.Errorf("%v", err)
	}
}
