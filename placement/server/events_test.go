package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// watcher is a client that applies events to a state. It reconnects again and again.
type watcher struct {
	mu     sync.Mutex
	state  map[string]string // kind and id → object
	resets int
	wrong  []string
}

func (w *watcher) apply(e eventstream.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := e.Kind + " " + e.ID
	_, had := w.state[key]
	switch e.Action {
	case eventstream.Reset:
		w.state = map[string]string{}
		w.resets++
	case eventstream.State:
		w.state[key] = string(e.Object)
	case eventstream.Created, eventstream.Changed:
		if had != (e.Action == eventstream.Changed) || w.state[key] == string(e.Object) {
			w.wrong = append(w.wrong, fmt.Sprintf("%s %s %s, the state has %q", e.Action, key, e.Object, w.state[key]))
		}
		w.state[key] = string(e.Object)
	case eventstream.Deleted:
		if !had {
			w.wrong = append(w.wrong, "deleted without being there: "+key)
		}
		delete(w.state, key)
	}
}

func (w *watcher) resetsSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resets
}

func (w *watcher) copy() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]string{}
	for key, text := range w.state {
		all[key] = text
	}
	return all
}

// TestEventsReplayed writes through two servers on one database, while a client watches the first one, loses its
// connection again and again, and the first one is replaced. What the client has at the end is what the API returns.
func TestEventsReplayed(t *testing.T) {
	database := "sqlite:///" + filepath.Join(testenv.MemoryDir(t), "placement.db")
	quick := func(o *Options) { o.RefreshInterval = 20 * time.Millisecond }
	writers := []*world{newWorldOn(t, database, quick), newWorldOn(t, database, quick)}
	front := &replaceable{}
	stop := front.replace(t, writers[0].server)
	web := httptest.NewServer(front)
	defer web.Close()
	seen := &watcher{state: map[string]string{}}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var clients sync.WaitGroup
	var limit atomic.Int64 // of a connection
	limit.Store(int64(150 * time.Millisecond))
	clients.Go(func() {
		client, cursor := watching(web.URL, "admin"), ""
		for ctx.Err() == nil {
			some, leave := context.WithTimeout(ctx, time.Duration(limit.Load()))
			cursor, _ = eventstream.Read(some, client, url.Values{"state": {"true"}}, cursor, func(e eventstream.Event) error {
				seen.apply(e)
				return nil
			})
			leave()
		}
	})
	chance := rand.New(rand.NewPCG(3, 4))
	for i := range 3 {
		for range 60 {
			writeRandomly(writers[chance.IntN(2)], chance)
			time.Sleep(time.Duration(chance.IntN(10)) * time.Millisecond)
		}
		testenv.Until(t, "the client has the state of the server", func() bool { return seen.resetsSoFar() > i })
		if i < 2 {
			stop()
			writers[0] = newWorldOn(t, database, quick)
			stop = front.replace(t, writers[0].server)
		}
	}
	limit.Store(int64(testenv.Patience))
	var want, got map[string]string
	_, _ = testenv.Wait(func() bool { // the difference is reported below
		want, got = present(t, writers[1]), seen.copy()
		return reflect.DeepEqual(want, got)
	})
	end()
	clients.Wait()
	stop()
	if !reflect.DeepEqual(want, got) || len(want) < 10 {
		t.Errorf("the client has\n%v\nthe API returns\n%v", got, want)
	}
	for _, wrong := range seen.wrong {
		t.Error(wrong)
	}
}

// watching returns a client with a token.
func watching(address, token string) *rest.Client {
	return &rest.Client{Base: address, Headers: map[string]string{"X-Auth-Token": token}}
}

// replaceable is a server that another one replaces, as at a restart.
type replaceable struct {
	mu sync.Mutex
	h  *Server
}

func (f *replaceable) replace(t *testing.T, s *Server) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.h = s
	return func() { cancel(); running.Wait() }
}

// ServeHTTP implements http.Handler.
func (f *replaceable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	h := f.h
	f.mu.Unlock()
	h.ServeHTTP(w, r)
}

// writeRandomly creates, changes or deletes something. It may be refused.
func writeRandomly(w *world, chance *rand.Rand) {
	id := func(kind string) string { return fmt.Sprintf("%s-0000-0000-0000-%012d", kind, chance.IntN(5)) }
	rp, consumer := id("aaaaaaaa"), id("cccccccc")
	generation := func() int {
		var doc struct{ Generation int }
		_ = json.Unmarshal([]byte(w.text("1.39", "GET", "/resource_providers/"+rp, "")), &doc) // 0 if it does not exist
		return doc.Generation
	}
	switch chance.IntN(8) {
	case 0, 1:
		parent := ""
		if chance.IntN(2) == 0 {
			parent = fmt.Sprintf(`, "parent_provider_uuid": %q`, id("aaaaaaaa"))
		}
		w.text("1.39", "POST", "/resource_providers", fmt.Sprintf(`{"uuid": %q, "name": "n%s"%s}`, rp, rp, parent))
	case 2:
		w.text("1.39", "PUT", "/resource_providers/"+rp+"/inventories", fmt.Sprintf(
			`{"resource_provider_generation": %d, "inventories": {"VCPU": {"total": %d}, "DISK_GB": {"total": 9}}}`,
			generation(), 5+chance.IntN(5)))
	case 3:
		w.text("1.39", "PUT", "/resource_providers/"+rp+"/traits", fmt.Sprintf(
			`{"resource_provider_generation": %d, "traits": ["HW_CPU_X86_VMX"]}`, generation()))
	case 4:
		w.text("1.39", "DELETE", "/resource_providers/"+rp, "")
	case 5:
		w.text("1.39", "DELETE", "/allocations/"+consumer, "")
	case 6: // to another consumer: no usage changes
		w.text("1.27", "POST", "/allocations", fmt.Sprintf(`{"%s": {"allocations": {}, "project_id": "p", "user_id": "u"}, `+
			`"%s": {"allocations": {"%s": {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u"}}`, consumer,
			id("dddddddd"), rp))
	default:
		w.text("1.27", "PUT", "/allocations/"+consumer, fmt.Sprintf(`{"allocations": {"%s": {"resources": {"VCPU": %d}}}, `+
			`"project_id": "p%d", "user_id": "u"}`, rp, 1+chance.IntN(2), chance.IntN(2)))
	}
}

// text sends a request and returns the body.
func (w *world) text(version, method, path, body string) string {
	w.t.Helper()
	response := w.ask(version, method, path, body)
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// present returns the objects that the API returns, in the form of events.
func present(t *testing.T, w *world) map[string]string {
	t.Helper()
	get := func(path string, into any) {
		if err := json.Unmarshal([]byte(w.text("1.39", "GET", path, "")), into); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]string{}
	add := func(key string, format string, args ...any) { all[key] = fmt.Sprintf(format, args...) }
	var list struct {
		Providers []struct {
			UUID, Name string
			Parent     string `json:"parent_provider_uuid"`
			Root       string `json:"root_provider_uuid"`
		} `json:"resource_providers"`
	}
	get("/resource_providers", &list)
	for _, p := range list.Providers {
		at := "/resource_providers/" + p.UUID
		var traits struct{ Traits json.RawMessage }
		var stock struct {
			Inventories map[string]struct{ Total int }
		}
		var usages struct{ Usages map[string]int }
		var held struct {
			Allocations map[string]struct{ Resources json.RawMessage }
		}
		get(at+"/traits", &traits)
		get(at+"/inventories", &stock)
		get(at+"/usages", &usages)
		get(at+"/allocations", &held)
		parent := ""
		if p.Parent != "" {
			parent = fmt.Sprintf(`"parent_provider_uuid":%q,`, p.Parent)
		}
		add("provider "+p.UUID, `{"uuid":%q,"name":%q,%s"root_provider_uuid":%q,"traits":%s,"aggregates":[]}`, p.UUID, p.Name,
			parent, p.Root, traits.Traits)
		for class, inv := range stock.Inventories {
			add("inventory "+p.UUID+"/"+class, `{"provider":%q,"resource_class":%q,"total":%d,"reserved":0,"min_unit":1,`+
				`"max_unit":2147483647,"step_size":1,"allocation_ratio":1,"used":%d}`, p.UUID, class, inv.Total,
				usages.Usages[class])
		}
		for consumer, share := range held.Allocations {
			var owner struct {
				Project string `json:"project_id"`
				User    string `json:"user_id"`
				Type    string `json:"consumer_type"`
			}
			get("/allocations/"+consumer, &owner)
			add("allocation "+consumer+"/"+p.UUID, `{"consumer":%q,"provider":%q,"resources":%s,"project_id":%q,"user_id":%q,`+
				`"consumer_type":%q}`, consumer, p.UUID, share.Resources, owner.Project, owner.User, owner.Type)
		}
	}
	return all
}

// TestEventsByProject watches as an administrator; users of projects may not, because events name hosts.
func TestEventsByProject(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Authenticate = func(r *http.Request) (identity.Identity, error) {
			if token := r.Header.Get("X-Auth-Token"); token != "admin" {
				user, project, _ := strings.Cut(token, ":")
				return identity.Identity{User: user, Project: project, Roles: []string{"reader", "member"}}, nil
			}
			return identity.NoAuth2(r)
		}
	})
	front := &replaceable{}
	defer front.replace(t, w.server)()
	web := httptest.NewServer(front)
	defer web.Close()
	rp := "aaaaaaaa-0000-0000-0000-000000000001"
	w.text("1.39", "POST", "/resource_providers", fmt.Sprintf(`{"uuid": %q, "name": "n"}`, rp))
	w.text("1.39", "PUT", "/resource_providers/"+rp+"/inventories", `{"resource_provider_generation": 0, "inventories": `+
		`{"VCPU": {"total": 9}}}`)
	for i := range 4 {
		w.text("1.27", "PUT", fmt.Sprintf("/allocations/cccccccc-0000-0000-0000-%012d", i), fmt.Sprintf(
			`{"allocations": {"%s": {"resources": {"VCPU": 1}}}, "project_id": "p%d", "user_id": "u"}`, rp, i%2))
	}
	for filter, want := range map[string]int{"": 6, "p1": 2, "p7": 0} {
		query, n := url.Values{"state": {"true"}}, 0
		if filter != "" {
			query.Set("project", filter)
		}
		done := fmt.Errorf("synced")
		_, err := eventstream.Read(t.Context(), watching(web.URL, "admin"), query, "", func(e eventstream.Event) error {
			if e.Action == eventstream.State {
				n++
			}
			if e.Action == eventstream.Synced {
				return done
			}
			return nil
		})
		if err != done || n != want {
			t.Errorf("project %q: %d objects, %v", filter, n, err)
		}
	}
	for _, token := range []string{"ann:p0", "ann:"} {
		_, err := eventstream.Read(t.Context(), watching(web.URL, token), nil, "", nil)
		if !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", token, err)
		}
	}
	for _, wrong := range []string{"kind=server", "colour=red", "state=maybe"} {
		query, err := url.ParseQuery(wrong)
		if err != nil {
			t.Fatal(err)
		}
		_, err = eventstream.Read(t.Context(), watching(web.URL, "admin"), query, "", nil)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
