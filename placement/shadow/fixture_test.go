package shadow

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// site is a shadow between a client and two handlers.
type site struct {
	t        *testing.T
	shadow   *Shadow
	server   *httptest.Server // of the shadow
	original *httptest.Server
	opened   atomic.Int64 // connections to it
	report   string
	stop     func()
}

// quick are short waits.
var quick = Times{Answer: 2 * time.Second, Pause: time.Millisecond, Settle: 2 * time.Millisecond,
	Write: 10 * time.Millisecond, Reopen: 5 * time.Millisecond}

// newSite starts a shadow of a handler with another one as Berth. If berth is nil, Berth's Placement cannot be opened.
func newSite(t *testing.T, original, berth http.Handler) *site {
	t.Helper()
	return newSiteWith(t, original, berth, filepath.Join(t.TempDir(), "report.json"))
}

func newSiteWith(t *testing.T, original, berth http.Handler, report string) *site {
	t.Helper()
	s := &site{t: t, original: httptest.NewUnstartedServer(original), report: report}
	s.original.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.opened.Add(1)
		}
	}
	s.original.Start()
	of, err := url.Parse(s.original.URL)
	if err == nil {
		s.shadow, err = New(Options{Original: of, Report: report, Log: slog.New(slog.DiscardHandler), Times: quick})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(s.shadow)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.shadow.Run(ctx, func(context.Context) (*Berth, error) {
			if berth == nil {
				return nil, errors.New("no database")
			}
			return &Berth{Handler: berth, Synchronize: func(context.Context) error { return nil }}, nil
		})
	}()
	s.stop = func() { cancel(); <-ended }
	t.Cleanup(func() {
		s.stop()
		s.server.Close()
		s.original.Close()
	})
	if berth != nil {
		s.until("Berth is ready", func() bool { return s.shadow.berth.Load() != nil })
	}
	return s
}

// get sends a GET through the shadow and returns status and body.
func (s *site) get(target string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", s.server.URL+target, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", "secret-token")
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// until waits for a condition.
func (s *site) until(what string, is func() bool) {
	s.t.Helper()
	if held, _ := testenv.Wait(is); !held {
		s.t.Fatalf("never: %s: %+v", what, s.shadow.recorder.state())
	}
}

// answered waits until n reads have a result and returns the report.
func (s *site) answered(n int64) Report {
	s.t.Helper()
	results := func() int64 {
		p := s.shadow.recorder.state()
		sum := p.Equal + p.Unlisted
		for _, k := range p.NotCompared {
			sum += k
		}
		for _, d := range p.Differences {
			sum += d.Count
		}
		return sum
	}
	s.until("results", func() bool { return results() >= n })
	if got := results(); got != n {
		s.t.Fatalf("%d results of %d reads: %+v", got, n, s.shadow.recorder.state())
	}
	return s.shadow.recorder.state()
}

// jsonAnswer is a handler that answers with a JSON document.
func jsonAnswer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// counted counts the requests of a handler.
func counted(h http.Handler, n *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h.ServeHTTP(w, r)
	}
}
