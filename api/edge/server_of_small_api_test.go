package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// shopCall is the call type of a small API.
type shopCall struct {
	Call
	minor int
}

type version int

func (v version) String() string { return "3." + string(rune('0'+v)) }

// negotiate reads the version from a header.
func (c *shopCall) negotiate() error {
	if text := c.R.Header.Get("Shop-Version"); text != "" {
		if len(text) != 1 || text[0] < '0' || text[0] > '9' {
			return StatusErrorf(http.StatusNotAcceptable, "no version %q", text)
		}
		c.minor = int(text[0] - '0')
	}
	c.Version = version(c.minor)
	return nil
}

func (c *shopCall) checkSince() error { return c.CheckSince(c.minor) }

func (c *shopCall) checkPolicy() error {
	return c.Authorize(c.Spec.Rule, map[string]any{"project_id": c.Who.Project})
}

// roleEnforcer allows a rule to callers with the role of its name.
type roleEnforcer struct{}

func (roleEnforcer) Allow(rule string, caller identity.Identity, _ map[string]any) (bool, string) {
	return caller.Has(rule), "no role"
}

func refuse(_ *shopCall, r *Refusal) error {
	status := map[Reason]int{LineTooLong: 414, Unauthenticated: 401, NoRoute: 404, NoMethod: 405, WrongType: 415,
		NotAcceptable: 406, NotAllowed: 403, BodyTooLarge: 413, BodyTooSlow: 408, BodyLost: 400}[r.Reason]
	return StatusErrorf(status, "refused %d %s", status, r.Rule)
}

func encode(c *shopCall, f Failure) {
	text := f.Err.Error()
	if f.Status >= 500 && !f.ForClient {
		text = "hidden"
	}
	if f.TimeUp != nil {
		text = f.TimeUp.Error()
	}
	rest.WriteJSON(c.W, f.Status, map[string]string{"error": text})
}

func say(text string) func(*shopCall) error {
	return func(c *shopCall) error {
		_, err := io.WriteString(c.W, text)
		return err
	}
}

func shop(log io.Writer) API[*shopCall] {
	get := func(s Spec, do func(*shopCall) error) map[string]Method[*shopCall] {
		return map[string]Method[*shopCall]{"GET": {Spec: s, Handle: do}}
	}
	return API[*shopCall]{
		Options: Options{Authenticate: identity.NoAuth2, Enforcer: roleEnforcer{},
			Log: slog.New(slog.NewJSONHandler(log, nil))},
		Bodies: rest.NewBodyBudget(1<<20, 1<<19), IDHeaders: []string{"Shop-Request-Id"},
		NewCall: func() *shopCall { return &shopCall{} }, Refuse: refuse, Encode: encode, HeadIsGet: true, Escaped: true,
		Checks: []func(*shopCall) error{(*shopCall).CheckRequestLine, (*shopCall).Authenticate, (*shopCall).negotiate,
			(*shopCall).CheckRoute, (*shopCall).CheckMethod, (*shopCall).CheckMediaFirst, (*shopCall).checkSince,
			(*shopCall).CheckMedia, (*shopCall).checkPolicy},
		Routes: []Route[*shopCall]{
			{Path: "/", Public: true, Methods: get(Spec{}, say("shop"))},
			{Path: "/items/{id}", Methods: map[string]Method[*shopCall]{
				"GET": {Handle: func(c *shopCall) error { return say("item " + c.R.PathValue("id"))(c) }},
				"PUT": {Spec: Spec{Body: true, Since: 2, Rule: "writer"}, Handle: func(c *shopCall) error {
					data, err := c.ReadBody(1 << 18)
					if err != nil {
						return err
					}
					return say(string(data))(c)
				}}}},
			{Path: "/items/all", Methods: get(Spec{Answer: true, Quiet: true}, say("all items"))},
			{Path: "/items/{id}/parts/{part}", Methods: get(Spec{}, func(c *shopCall) error {
				return say(c.R.PathValue("id") + " " + c.R.PathValue("part"))(c)
			})},
			{Path: "/later", Methods: get(Spec{Since: 3, StatusBefore: 405}, say("later"))},
			{Path: "/media-first", Methods: get(Spec{Since: 3, Answer: true, MediaFirst: true}, say("later"))},
			{Path: "/panics", Methods: get(Spec{}, func(*shopCall) error { panic("the secret") })},
			{Path: "/breaks", Methods: get(Spec{}, func(c *shopCall) error {
				return errors.Join(say("half")(c), errors.New("the secret"))
			})},
			{Path: "/fails", Methods: get(Spec{}, func(*shopCall) error { return errors.New("the secret") })},
			{Path: "/missing", Methods: get(Spec{}, func(*shopCall) error { return StatusErrorf(501, "no such goods") })},
			{Path: "/waits", Methods: get(Spec{}, func(c *shopCall) error {
				<-c.Context().Done()
				return c.Context().Err()
			})},
			{Path: "/base", Methods: get(Spec{}, func(c *shopCall) error { return say(c.BaseURL())(c) })},
			{Path: "/nothing", Methods: get(Spec{}, func(*shopCall) error { return nil })},
		},
	}
}

// ask sends a request as admin, unless the headers replace the token.
func ask(h http.Handler, method, path string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, body)
	r.Header.Set("X-Auth-Token", "admin")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// stalled is a request body of which no more data arrives.
type stalled struct{}

func (stalled) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// lost is a request body whose connection breaks.
type lost struct{}

func (lost) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestRoutesAndChecks(t *testing.T) {
	s := New(shop(io.Discard))
	const noToken, asJSON = "X-Auth-Token", "application/json"
	put := []string{"Content-Type", asJSON, "Shop-Version", "2", "X-Roles", "writer"}
	for _, c := range []struct {
		method, path string
		body         io.Reader
		headers      []string
		status       int
		want, allow  string
	}{
		{"GET", "/", nil, []string{noToken, ""}, 200, "shop", ""},
		{"GET", "/items/7", nil, nil, 200, "item 7", ""},
		{"GET", "/items/a%2Fb%20c", nil, nil, 200, "item a/b c", ""},
		{"GET", "/items/all", nil, nil, 200, "all items", ""},
		{"HEAD", "/items/all", nil, nil, 200, "all items", ""},
		{"GET", "/items/1/parts/2", nil, nil, 200, "1 2", ""},
		{"GET", "/nothing", nil, nil, 200, "", ""},
		{"GET", "/items/", nil, nil, 404, "refused", ""},
		{"GET", "/items/1/", nil, nil, 404, "refused", ""},
		{"GET", "/items//parts/2", nil, nil, 404, "refused", ""},
		{"GET", "/nowhere", nil, nil, 404, "refused", ""},
		{"GET", "/nowhere", nil, []string{noToken, ""}, 401, "refused", ""},
		{"GET", "/?" + strings.Repeat("x", MaxRequestLine), nil, nil, 414, "refused", ""},
		{"DELETE", "/items/7", nil, nil, 405, "refused", "GET, PUT, HEAD"},
		{"GET", "/items/7", nil, []string{"Shop-Version", "x"}, 406, `no version`, ""},
		{"GET", "/later", nil, nil, 405, "refused", "GET, HEAD"},
		{"GET", "/later", nil, []string{"Shop-Version", "3"}, 200, "later", ""},
		{"GET", "/media-first", nil, nil, 404, "refused", ""},
		{"GET", "/media-first", nil, []string{"Accept", "text/html"}, 406, "refused", ""},
		{"GET", "/items/all", nil, []string{"Accept", "text/html"}, 406, "refused", ""},
		{"PUT", "/items/7", strings.NewReader("{}"), []string{"Content-Type", "text/plain"}, 404, "refused", ""},
		{"PUT", "/items/7", strings.NewReader("{}"), []string{"Shop-Version", "2"}, 415, "refused", ""},
		{"PUT", "/items/7", strings.NewReader("{}"), []string{"Shop-Version", "2", "Content-Type", asJSON}, 403,
			"refused 403 writer", ""},
		{"PUT", "/items/7", strings.NewReader(`{"a":1}`), put, 200, `{"a":1}`, ""},
		{"PUT", "/items/7", strings.NewReader(strings.Repeat(" ", 1<<18+1)), put, 413, "refused", ""},
		{"PUT", "/items/7", io.MultiReader(strings.NewReader(strings.Repeat(" ", 1<<18+1))), put, 413, "refused", ""},
		{"PUT", "/items/7", stalled{}, put, 408, "refused", ""},
		{"PUT", "/items/7", lost{}, put, 400, "refused", ""},
	} {
		w := ask(s, c.method, c.path, c.body, c.headers...)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || w.Header().Get("Allow") != c.allow ||
			!strings.HasPrefix(w.Header().Get("Shop-Request-Id"), "req-") {
			t.Errorf("%s %.40s %q: %d %s %v, want %d %s", c.method, c.path, c.headers, w.Code, w.Body, w.Header(), c.status,
				c.want)
		}
	}
}

// Without an Authenticator and an Enforcer only public paths and methods without a rule are served.
func TestWithoutAuthenticationAndPolicy(t *testing.T) {
	a := shop(io.Discard)
	a.Authenticate, a.Challenge = nil, "Keystone uri=x"
	if w := ask(New(a), "GET", "/items/7", nil); w.Code != 401 || w.Header().Get("Www-Authenticate") != "Keystone uri=x" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	a.Authenticate = func(*http.Request) (identity.Identity, error) {
		return identity.Identity{}, fault.New(fault.Unavailable, "Keystone does not answer")
	}
	if w := ask(New(a), "GET", "/items/7", nil); w.Code != 503 {
		t.Errorf("%d", w.Code)
	}
	a = shop(io.Discard)
	a.Enforcer = nil
	if w := ask(New(a), "PUT", "/items/7", strings.NewReader("{}"), "Content-Type", JSON, "Shop-Version", "2"); w.Code !=
		403 {
		t.Errorf("%d", w.Code)
	}
	if w := ask(New(a), "GET", "/items/7", nil); w.Code != 200 {
		t.Errorf("%d", w.Code)
	}
}

// What a service does not have is answered with its text, and is not logged as an error.
func TestNotImplementedIsNoError(t *testing.T) {
	var log bytes.Buffer
	w := ask(New(shop(&log)), "GET", "/missing", nil)
	if w.Code != 501 || !strings.Contains(w.Body.String(), "no such goods") {
		t.Error(w.Code, w.Body)
	}
	if strings.Contains(log.String(), `"level":"ERROR"`) || !strings.Contains(log.String(), `"status":501`) {
		t.Errorf("the log has an error, or no request: %s", &log)
	}
}

// A handler that panics or fails is answered with 500 without the cause, which is in the log. After the answer has
// begun the connection is closed.
func TestPanicsAndErrors(t *testing.T) {
	var log bytes.Buffer
	s := New(shop(&log))
	for _, path := range []string{"/panics", "/fails"} {
		log.Reset()
		w := ask(s, "GET", path, nil)
		id := w.Header().Get("Shop-Request-Id")
		if w.Code != 500 || !strings.Contains(w.Body.String(), "hidden") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if text := log.String(); strings.Count(text, `"level":"ERROR"`) != 1 || !strings.Contains(text, "the secret") ||
			strings.Count(text, id) != 2 {
			t.Errorf("%s: %s", path, text)
		}
	}
	log.Reset()
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("recovered %v, want http.ErrAbortHandler", p)
			}
		}()
		ask(s, "GET", "/breaks", nil)
	}()
	if !strings.Contains(log.String(), `"status":499`) {
		t.Errorf("log %s", &log)
	}
	text := ask(s, "GET", "/metrics", nil).Body.String()
	for _, line := range []string{`berth_panics_total 1`, `berth_requests_in_flight 0`,
		`berth_requests_total{method="GET",route="/panics",status="500"} 1`,
		`berth_requests_total{method="GET",route="/breaks",status="499"} 1`} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("/metrics has no line %s", line)
		}
	}
}

// A request that reaches its time limit is answered with 503 and the text of the limit.
func TestTimeLimit(t *testing.T) {
	w := ask(rest.Limit(New(shop(io.Discard)), time.Millisecond), "GET", "/waits", nil)
	if w.Code != 503 || !strings.Contains(w.Body.String(), "not finished within 1ms") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// CORS headers are also in the answers of refused requests, and a preflight request needs no token.
func TestCORS(t *testing.T) {
	a := shop(io.Discard)
	a.CORS = cors.Defaults()
	a.CORS.AllowedOrigin = []string{"https://a.example"}
	s := New(a)
	const origin, allowed = "https://a.example", "Access-Control-Allow-Origin"
	w := ask(s, "OPTIONS", "/items/7", nil, "Origin", origin, "Access-Control-Request-Method", "PUT", "X-Auth-Token", "")
	if w.Code != 200 || w.Body.Len() > 0 || w.Header().Get(allowed) != origin || w.Header().Get("Content-Type") != "" ||
		w.Header().Get("Shop-Request-Id") == "" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	for path, status := range map[string]int{"/items/7": 200, "/nowhere": 404, "/panics": 500} {
		if w := ask(s, "GET", path, nil, "Origin", origin); w.Code != status || w.Header().Get(allowed) != origin {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if w := ask(s, "GET", path, nil, "Origin", "https://b.example"); w.Header().Get(allowed) != "" {
			t.Errorf("%s from another origin: %v", path, w.Header())
		}
	}
}

func TestProxyHeaders(t *testing.T) {
	var log bytes.Buffer
	a := shop(&log)
	plain := New(a)
	a.ProxyHeaders = true
	headers := []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "api.example:443", "X-Forwarded-Prefix",
		"/shop/",
		"X-Forwarded-For", "192.0.2.7"}
	if w := ask(New(a), "GET", "/base", nil, headers...); w.Body.String() != "https://api.example/shop" {
		t.Errorf("%s", w.Body)
	}
	if !strings.Contains(log.String(), `"from":"192.0.2.7"`) {
		t.Errorf("log %s", &log)
	}
	if w := ask(plain, "GET", "/base", nil, headers...); w.Body.String() != "http://example.com" {
		t.Errorf("without the option: %s", w.Body)
	}
}

// The log has one line for each request, at debug level for quiet methods that succeed.
func TestRequestLog(t *testing.T) {
	var log bytes.Buffer
	s := New(shop(&log))
	const global = "req-11111111-2222-3333-4444-555555555555"
	w := ask(s, "GET", "/items/7?a=b", nil, "X-Auth-Token", "ann:p", "Shop-Version", "4", "X-Openstack-Request-Id", global)
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, &log)
	}
	for key, want := range map[string]any{"msg": "request", "method": "GET", "route": "/items/{id}", "uri": "/items/7?a=b",
		"status": 200.0, "len": 6.0, "microversion": "3.4", "user": "ann", "project": "p", "global_request_id": global,
		"request_id": w.Header().Get("Shop-Request-Id")} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	log.Reset()
	if ask(s, "GET", "/?token=s3cret", nil); !strings.Contains(log.String(), `"uri":"/"`) {
		t.Errorf("the query of a public path is logged, which may have a token: %s", &log)
	}
	log.Reset()
	ask(s, "GET", "/items/all", nil)
	ask(s, "GET", "/metrics", nil)
	ask(s, "GET", "/healthz", nil)
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
	if ask(s, "GET", "/items/all", nil, "X-Auth-Token", ""); !strings.Contains(log.String(), `"status":401`) {
		t.Errorf("a quiet method that fails is not logged: %s", &log)
	}
}

// /healthz needs no token. A result is reused for HealthAge.
func TestHealth(t *testing.T) {
	var log bytes.Buffer
	a := shop(&log)
	now, reason, checks := time.Now(), "", 0
	a.Now = func() time.Time { return now }
	a.Health = Health{
		Check: func(ctx context.Context) (string, error) {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > HealthTimeout {
				t.Error("the check has no time limit")
			}
			checks++
			return reason, errors.New("the cause")
		},
		Describe: func(d HealthDoc) any {
			return struct {
				HealthDoc
				Items int `json:"items"`
			}{d, 5}
		}}
	s := New(a)
	for _, c := range []struct {
		after  time.Duration
		reason string
		status int
		body   string
		checks int
	}{
		{0, "", 200, `{"status":"ok","items":5}`, 1},
		{HealthAge / 2, "Broken.", 200, `{"status":"ok","items":5}`, 1},
		{HealthAge, "Broken.", 503, `{"status":"unavailable","reason":"Broken.","items":5}`, 2},
		{HealthAge, "", 200, `{"status":"ok","items":5}`, 3},
	} {
		now, reason = now.Add(c.after), c.reason
		w := ask(s, "GET", "/healthz", nil, "X-Auth-Token", "")
		if w.Code != c.status || w.Body.String() != c.body || checks != c.checks {
			t.Errorf("%d %s after %d checks, want %+v", w.Code, w.Body, checks, c)
		}
	}
	if strings.Count(log.String(), "health changed") != 2 || !strings.Contains(log.String(), "the cause") {
		t.Errorf("log %s", &log)
	}
	for _, path := range []string{"/healthz", "/metrics"} {
		if w := ask(s, "POST", path, nil); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
}

// Passwords and tokens of callers are neither logged nor answered, whether a caller is accepted or refused, also at the
// level DEBUG.
func TestCredentialsAreNotShown(t *testing.T) {
	var log bytes.Buffer
	api := shop(&log)
	api.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	api.Challenge = `Basic realm="Shop"`
	accepts := api.Authenticate
	for _, refused := range []bool{false, true} {
		api.Authenticate = func(r *http.Request) (identity.Identity, error) {
			if refused {
				return identity.Identity{}, fault.New(fault.Forbidden, "not valid")
			}
			return accepts(r)
		}
		h := New(api)
		for _, path := range []string{"/items/1", "/panics", "/fails", "/nowhere", "/items/1?limit=1"} {
			log.Reset()
			w := ask(h, "GET", path, nil, "Authorization", "Basic cm9vdDpzM2NyZXQ=", "X-Auth-Token", "t0ken:p",
				"X-Service-Token", "s3rvice")
			if (w.Code == 401) != refused || log.Len() == 0 {
				t.Errorf("%s: %d, log %q", path, w.Code, log.String())
			}
			metrics := ask(h, "GET", "/metrics", nil)
			shown := log.String() + w.Body.String() + fmt.Sprint(w.Header()) + metrics.Body.String()
			for _, secret := range []string{"cm9vdDpzM2NyZXQ=", "s3cret", "t0ken:p", "s3rvice"} {
				if strings.Contains(shown, secret) {
					t.Errorf("%s: %s is in %s", path, secret, shown)
				}
			}
		}
	}
}
