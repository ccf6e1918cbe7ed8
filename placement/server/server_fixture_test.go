package server

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// world is a server with an empty database file.
type world struct {
	t      *testing.T
	server *Server
	store  *store.Store
	close  func() error // of the database
}

func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	return newWorldOn(t, "sqlite:///"+filepath.Join(testenv.MemoryDir(t), "placement.db"), change...)
}

// newWorldOn is newWorld on an existing database.
func newWorldOn(t *testing.T, url string, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t}
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	w.close = db.Close
	t.Cleanup(func() { db.Close() })
	if w.store, err = store.Open(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	opts := Options{Options: edge.Options{Authenticate: identity.NoAuth2, Log: slog.New(slog.DiscardHandler)}}
	for _, c := range change {
		c(&opts)
	}
	if w.server, err = New(t.Context(), w.store, opts); err != nil {
		t.Fatal(err)
	}
	return w
}

// handle adds a path that is answered by a handler of the test.
func (w *world) handle(path string, handle func(*request.Call) error) {
	a := w.server.declare()
	a.Routes = append(a.Routes, request.Route{Path: path, Methods: map[string]request.Verb{"GET": {Handle: handle}}})
	w.server.edge = edge.New(a)
}

// ask sends a request as admin.
func (w *world) ask(version, method, path, body string, headers ...string) *http.Response {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, "http://example.com"+path, strings.NewReader(body))
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set(api.VersionHeader, "placement "+version)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, r)
	return rec.Result()
}

// want sends a request at 1.39 and checks the status of the answer.
func (w *world) want(status int, method, path, body string) string {
	w.t.Helper()
	resp := w.ask("1.39", method, path, body)
	text := bodyOf(w.t, resp)
	if resp.StatusCode != status {
		w.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, resp.StatusCode, text, status)
	}
	return text
}

// must sends a request that must succeed.
func (w *world) must(version, method, path, body string) string {
	w.t.Helper()
	resp := w.ask(version, method, path, body)
	text := bodyOf(w.t, resp)
	if resp.StatusCode >= 300 {
		w.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return text
}

// client returns an api/placement client that uses the in-memory transport.
func (w *world) client() *api.Client {
	return api.NewClient("http://placement", rest.InMemory(w.server), "admin")
}

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// rowStore is a store for an index of fixed rows, in which all resource classes and traits exist.
type rowStore struct {
	liveindex.Store
	rows []index.Row
}

func (s rowStore) Trees(_ context.Context, each func(root provider.ID, rows []store.Row)) error {
	byRoot := map[provider.ID][]store.Row{}
	for _, r := range s.rows {
		root := cmp.Or(r.Root, r.ID)
		byRoot[root] = append(byRoot[root], r)
	}
	for _, root := range slices.Sorted(maps.Keys(byRoot)) {
		each(root, byRoot[root])
	}
	return nil
}

func (rowStore) Class(context.Context, resource.Class) (c store.Class, err error) { return c, nil }

func (rowStore) Traits(_ context.Context, filter store.TraitFilter) (list []store.Trait, err error) {
	for _, name := range filter.In {
		list = append(list, store.Trait{Name: name})
	}
	return list, nil
}

// show gives a server an index of fixed rows.
func show(s *Server, rows []index.Row) {
	from := rowStore{rows: rows}
	s.service.Index, s.service.Names = liveindex.New(from), liveindex.NewNames(from)
	if err := s.service.Index.Reload(context.Background()); err != nil {
		panic(err)
	}
}

// setDefaults sets the fields that New sets, for a server without a store.
func setDefaults(s *Server) {
	s.service.Log, s.service.Now, s.service.Shuffle = slog.New(slog.DiscardHandler), time.Now, shuffle
	s.edge = edge.New(s.declare())
}
