package metadata

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/configdrive"
)

// TestRepeatedRequests: requests of one guest cost the host one look-up in answerAge, and one warning in warnEvery.
func TestRepeatedRequests(t *testing.T) {
	calls, now := 0, time.Unix(1000, 0)
	var log bytes.Buffer
	s := New(func(ctx context.Context, network string, at netip.Addr) (configdrive.Server, error) {
		calls++
		return guests(ctx, network, at)
	}, slog.New(slog.NewTextHandler(&log, nil)))
	s.guests.now = func() time.Time { return now }
	request := func(ctx context.Context, from string, want int) {
		t.Helper()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/latest/user-data", nil)
		r.RemoteAddr = from + ":40000"
		w := httptest.NewRecorder()
		if s.handler("n").ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", from, w.Code, want)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	request(gone, "10.0.0.5", 200)
	calls = 0
	for range 50 {
		request(t.Context(), "10.0.0.5", 200)
		request(t.Context(), "10.0.0.6", 404)
	}
	if calls != 2 {
		t.Errorf("%d look-ups for two sources, want 2", calls)
	}
	now = now.Add(answerAge)
	request(t.Context(), "10.0.0.5", 200)
	if calls != 3 || len(s.guests.kept) != 1 {
		t.Errorf("later: %d look-ups, want 3; %d answers kept, want 1", calls, len(s.guests.kept))
	}
	if n := strings.Count(log.String(), "metadata not served"); n != 1 {
		t.Errorf("%d warnings, want 1: %s", n, &log)
	}
	now = now.Add(warnEvery)
	request(t.Context(), "10.0.0.6", 404)
	if !strings.Contains(log.String(), "not_logged_before=49") {
		t.Errorf("%s", &log)
	}
	for i := range 2 * maxAnswers {
		s.guests.of(t.Context(), "n", netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
	}
	if len(s.guests.kept) > maxAnswers {
		t.Errorf("%d answers are kept", len(s.guests.kept))
	}
}
