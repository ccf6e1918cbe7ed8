package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/sqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a service on a new database.
type fixture struct {
	t       *testing.T
	handler http.Handler
	ops     *operations.Service
	options Options
}

func start(t *testing.T) *fixture {
	t.Helper()
	db, err := sqldb.Open(t.Context(), databases.SQLite(t))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	st, err := store.Open(t.Context(), db)
	must(t, err)
	ops := operations.New(st, nil)
	ops.Log = slog.New(slog.DiscardHandler)
	options := Options{Operations: ops, Options: edge.Options{Authenticate: identity.NoAuth2, Log: ops.Log}}
	return &fixture{t, New(options), ops, options}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// client returns a client with a token of noauth2, such as admin or demo.
func (f *fixture) client(token string) *api.Client {
	return api.NewClient("http://network", rest.InMemory(f.handler), token)
}

// do sends a request and returns the status and the decoded answer. headers are name, value pairs.
func (f *fixture) do(token, method, path, body string, headers ...string) (int, map[string]any) {
	f.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-Auth-Token", token)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	out := map[string]any{}
	if data := bytes.TrimSpace(w.Body.Bytes()); len(data) > 0 {
		must(f.t, json.Unmarshal(data, &out))
	}
	return w.Code, out
}

// fails sends a request that must be answered with a status and a type of error.
func (f *fixture) fails(status int, kind, token, method, path, body string, headers ...string) {
	f.t.Helper()
	got, answer := f.do(token, method, path, body, headers...)
	e, _ := answer["NeutronError"].(map[string]any)
	if got != status || e["type"] != kind || e["message"] == "" || e["detail"] != "" {
		f.t.Errorf("%s %s %s: %d %v, want %d %s", method, path, body, got, answer, status, kind)
	}
}

// create creates an object and returns it.
func (f *fixture) create(token, path, key, attributes string) map[string]any {
	f.t.Helper()
	status, answer := f.do(token, "POST", path, `{"`+key+`": `+attributes+`}`)
	if status != http.StatusCreated {
		f.t.Fatalf("POST %s %s: %d %v", path, attributes, status, answer)
	}
	return answer[key].(map[string]any)
}

// names returns the names in a list.
func (f *fixture) names(token, path, key string) (names []string) {
	f.t.Helper()
	status, answer := f.do(token, "GET", path, "")
	if status != http.StatusOK {
		f.t.Fatalf("GET %s: %d %v", path, status, answer)
	}
	for _, one := range answer[key].([]any) {
		name, _ := one.(map[string]any)["name"].(string)
		names = append(names, name)
	}
	return names
}

// put changes an object as an administrator.
func (f *fixture) put(path, body string) {
	f.t.Helper()
	if status, answer := f.do("admin", "PUT", path, body); status != 200 {
		f.t.Errorf("PUT %s %s: %d %v", path, body, status, answer)
	}
}

// text returns the status and the body of the answer to a GET request.
func (f *fixture) text(token, path string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("X-Auth-Token", token)
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}
