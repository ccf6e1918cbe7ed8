package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

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

// The query of a stream has the agent's Start, so no error contains it, also if the connection fails.
func TestErrorsOfStreamsHaveNoQuery(t *testing.T) {
	c := Client{REST: &rest.Client{Base: "http://127.0.0.1:0"}}
	err := c.Admit(t.Context(), "h", Sender{Instance: "i", Start: "secret"})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "GET /berth/v1/hosts/h/assignments: http") ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// TestWatchRequestIsDecoded tests that a decoded request equals the encoded one.
func TestWatchRequestIsDecoded(t *testing.T) {
	for _, w := range []WatchRequest{
		{Host: "h"},
		{Host: "h", Sender: Sender{Instance: "i", Start: "s", Previous: []string{"a", "b"},
			LockID: "boot pid:[1] locks 1:2"},
			Position: Position{Epoch: 3, EpochID: "e"}, Since: 7, Changes: true},
	} {
		query, err := url.ParseQuery(w.query())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadWatchRequest("h", query); err != nil || !reflect.DeepEqual(got, w) {
			t.Errorf("got %+v, want %+v (%v)", got, w, err)
		}
	}
	for _, query := range []string{"since=x", "since=-1", "epoch=1.5"} {
		query, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadWatchRequest("h", query); err == nil {
			t.Errorf("%s is accepted", query)
		}
	}
}
