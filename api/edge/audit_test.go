package edge

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/openberth/berth/api/audit"
)

// TestAudit records each request that writes, also those that are refused, and no secret. Those of unknown callers are
// one event together.
func TestAudit(t *testing.T) {
	var log bytes.Buffer
	api := shop(io.Discard)
	api.Service, api.Audit = "shop", audit.New("", 0, slog.New(slog.NewJSONHandler(&log, nil)))
	one := api.Routes[1].Methods["PUT"]
	act := func(c *shopCall) error { c.Action = "sell"; return say("done")(c) }
	api.Routes = append(api.Routes,
		Route[*shopCall]{Path: "/keys/{key}", Methods: map[string]Method[*shopCall]{"POST": {Spec: Spec{Secret: true},
			Handle: act}, "DELETE": {Handle: func(*shopCall) error { panic("broken") }}}},
		Route[*shopCall]{Path: "/reports/{id}", Methods: map[string]Method[*shopCall]{"PUT": {Spec: Spec{Quiet: true},
			Handle: one.Handle}}})
	s := New(api)
	for _, c := range []struct{ method, path, token, want string }{
		{"GET", "/items/7", "admin", ""},
		{"HEAD", "/items/7", "admin", ""},
		{"OPTIONS", "/items/7", "admin", ""},
		{"PUT", "/reports/7", "admin", ""},
		{"PUT", "/reports/7", "", ""},
		{"PUT", "/items/7?secret=1", "ann:p", "update failure service/shop/items 7 /items/7 403 ann"},
		{"PUT", "/items/7", "", ""},
		{"POST", "/nowhere", "", ""},
		{"POST", "/nowhere", "admin", "create failure service/shop none /nowhere 404 admin"},
		{"POST", "/items/7", "admin", "create failure service/shop/items 7 /items/7 405 admin"},
		{"POST", "/keys/s3cret", "admin", "update/sell success service/shop/keys {key} /keys/{key} 200 admin"},
		{"DELETE", "/keys/k", "admin", "delete failure service/shop/keys k /keys/k 500 admin"},
	} {
		log.Reset()
		w := ask(s, c.method, c.path, strings.NewReader(`{"password": "s3cret"}`), "X-Auth-Token", c.token,
			"Shop-Version", "4", "Content-Type", "application/json", "User-Agent", "curl", "Authorization", "s3cret")
		if strings.Contains(log.String(), "s3cret") || strings.Contains(log.String(), "secret=1") {
			t.Errorf("%s %s: a secret is recorded: %s", c.method, c.path, &log)
		}
		var line struct{ Event string }
		if c.want == "" {
			if log.Len() > 0 {
				t.Errorf("%s %s is recorded: %s", c.method, c.path, &log)
			}
			continue
		}
		var e audit.Event
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Errorf("%s %s: %v: %s", c.method, c.path, err, &log)
			continue
		}
		if err := json.Unmarshal([]byte(line.Event), &e); err != nil {
			t.Error(err)
		}
		got := strings.Join([]string{e.Action, e.Outcome, e.Target.TypeURI, e.Target.ID, e.RequestPath,
			e.Reason.ReasonCode, e.Initiator.ID}, " ")
		if got != c.want || e.Tags[0] != w.Header().Get("Shop-Request-Id") || e.Initiator.Host.Address != "192.0.2.1" ||
			e.Initiator.Host.Agent != "curl" {
			t.Errorf("%s %s: %s, want %s: %s", c.method, c.path, got, c.want, line.Event)
		}
	}
	log.Reset()
	if err := api.Audit.Close(); err != nil || strings.Count(log.String(), "\n") != 1 ||
		!strings.Contains(log.String(), `\"3 requests\"`) {
		t.Errorf("%v %s", err, &log)
	}
}
