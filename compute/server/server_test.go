package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

const (
	rootID   = provider.ID("11111111-1111-4111-8111-111111111111")
	deviceID = provider.ID("22222222-2222-4222-8222-222222222222")
	imageID  = "33333333-3333-4333-8333-333333333333"
)

// fakeConductor is a conductor without a Placement: it applies requests and reports to the state machine; the test
// applies all other events.
type fakeConductor struct {
	*conductor.Conductor // admits agents
	store                *store.Store

	mu    sync.Mutex
	room  int // the number of servers that still fit; below 0: no limit
	fails error
}

// Create stores the servers in BUILD.
func (l *fakeConductor) Create(ctx context.Context, servers ...lifecycle.Server) ([]lifecycle.Server, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room >= 0 && len(servers) > l.room {
		return nil, l.fails
	}
	l.room -= len(servers)
	for i, s := range servers {
		servers[i], _ = lifecycle.Next(s, lifecycle.Created{}, time.Now())
	}
	return servers, l.store.Create(ctx, servers...)
}

// Delete records the request.
func (l *fakeConductor) Delete(ctx context.Context, id string) error {
	return l.event(ctx, id, lifecycle.DeleteRequested{})
}

// Guest records a report of any agent.
func (l *fakeConductor) Guest(ctx context.Context, id, _ string, e lifecycle.Report) error {
	return l.event(ctx, id, e)
}

// event records an event.
func (l *fakeConductor) event(ctx context.Context, id string, e lifecycle.Event) error {
	s, err := l.store.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server {
		s, _ = lifecycle.Next(s, e, time.Now())
		return s
	})
	if report, ok := e.(lifecycle.Report); ok && err == nil && report.Number < s.Latest(report.Host, report.Instance) {
		return fault.Wrap(fault.Conflict, "fakeConductor.Guest",
			&conductor.Late{Number: s.Latest(report.Host, report.Instance)})
	}
	if report, ok := e.(lifecycle.Report); ok {
		e = report.Event
	}
	if claim, ok := e.(lifecycle.GuestClaimed); ok && err == nil && !s.Expects(id, claim.Host) {
		return fault.New(fault.Conflict, "fakeConductor.Guest", "not assigned to %s", claim.Host)
	}
	return err
}

// Act applies the action, or rejects it.
func (l *fakeConductor) Act(ctx context.Context, id string,
	action lifecycle.ActionRequested) (lifecycle.Server, error) {
	s, err := l.store.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server {
		s, _ = lifecycle.Next(s, action, time.Now())
		return s
	})
	if err == nil && s.LastAction != action.ID {
		err = fault.New(fault.Conflict, "fakeConductor.Act", "%s", s.Refuse(action.Action, action.Hard))
	}
	return s, err
}

// HostDown records it.
func (l *fakeConductor) HostDown(ctx context.Context, host string) error {
	return l.store.SetDead(ctx, host, true, time.Now())
}

// HostUp records it.
func (l *fakeConductor) HostUp(ctx context.Context, host string) error {
	return l.store.SetDead(ctx, host, false, time.Now())
}

// HostForget deletes the report only.
func (l *fakeConductor) HostForget(ctx context.Context, host string) (removed, kept []string, err error) {
	if _, err := l.store.Host(ctx, host); err != nil {
		return nil, nil, err
	}
	return nil, []string{"kept"}, l.store.Forget(ctx, host)
}

// HostReported does nothing.
func (l *fakeConductor) HostReported(schedule.Host) {}

// HostConditions returns one condition, of the host "audited".
func (l *fakeConductor) HostConditions(host string) []string {
	if host != "audited" {
		return nil
	}
	return []string{"found by an audit"}
}

// HostAudit returns one finding of each kind.
func (l *fakeConductor) HostAudit(_ context.Context, host string) (conductor.Audit, error) {
	lacks, holds := resource.Allocation{rootID: {"VCPU": 2}}, resource.Allocation{rootID: {"VCPU": 1}}
	return conductor.Audit{Host: host,
		Missing: []conductor.Missing{{Server: "s1", Name: "web", Consumer: "s1", Lacks: lacks}},
		Foreign: []conductor.Foreign{{Consumer: "x", Holds: holds, Why: "unknown"}}}, nil
}

// HostHeal returns the same, healed.
func (l *fakeConductor) HostHeal(ctx context.Context, host string, oversubscribe bool) (conductor.Audit, error) {
	a, err := l.HostAudit(ctx, host)
	a.Missing[0].Outcome, a.Missing[0].Healed = fmt.Sprint("oversubscribe ", oversubscribe), true
	return a, err
}

// fixture is a server with a database of its own, and clients of it.
type fixture struct {
	*testing.T
	store     *store.Store
	conductor *fakeConductor
	aliases   pci.Aliases
	log       *bytes.Buffer // its log; read it only when no request runs
	url       string
	admin     *compute.Client
	hosts     host.Client

	number int64 // of the last guest report
}

// start returns a fixture with default options.
func start(t *testing.T) *fixture { return startWith(t, func(*Options) {}) }

// startWith returns a fixture with changed options.
func startWith(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	db, err := sqldb.Open(t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "compute.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	st, err := store.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	aliases, err := pci.ParseAliases(true, `{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}`)
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{T: t, store: st, conductor: &fakeConductor{Conductor: conductor.New(st, nil), store: st, room: -1},
		aliases: aliases, log: &bytes.Buffer{}}
	o := Options{Store: st, Conductor: h.conductor, Aliases: aliases, PCIInPlacement: true,
		Log: slog.New(slog.NewTextHandler(h.log, nil))}
	change(&o)
	web := httptest.NewServer(New(o))
	t.Cleanup(web.Close)
	h.url = web.URL
	h.admin = h.client("admin")
	h.hosts = host.Client{REST: &rest.Client{Base: h.url, HTTP: &http.Client{},
		Headers: map[string]string{"X-Auth-Token": "agent:service", "X-Roles": "service"}}}
	return h
}

func (h *fixture) client(token string) *compute.Client {
	return compute.NewClient(h.url, &http.Client{}, token)
}

// reply is the response to a raw request.
type reply struct {
	status int
	header http.Header
	text   string
	body   map[string]any // nil if the text is not a JSON object
}

// ask sends a raw request as user ann of project p1, unless the headers (pairs of name and value) replace the token.
func (h *fixture) ask(method, path, body string, headers ...string) reply {
	h.Helper()
	req, err := http.NewRequestWithContext(h.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", "ann:p1")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		h.Fatal(err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header, text: string(data)}
	if len(data) > 0 && data[0] == '{' {
		if err := json.Unmarshal(data, &r.body); err != nil {
			h.Fatalf("%s %s: %v in %s", method, path, err, data)
		}
	}
	return r
}

// at sends a request as admin in a microversion.
func (h *fixture) at(version, method, path, body string) reply {
	h.Helper()
	return h.ask(method, path, body, "X-Auth-Token", "admin", "OpenStack-API-Version", "compute "+version)
}

// guest sends a guest report with the next number.
func (h *fixture) guest(hostname, id string, g host.Guest) error {
	h.number++
	g.Instance, g.Start, g.Number = "a", "s", h.number
	return h.hosts.PutGuest(h.Context(), hostname, id, g)
}

// flavor creates a flavor whose id is its name.
func (h *fixture) flavor(name string, specs map[string]string) {
	h.Helper()
	if _, err := h.admin.CreateFlavor(h.Context(), compute.CreateFlavor{ID: name, Name: name, VCPUs: 2, RAM: 512,
		Disk: 3}); err != nil {
		h.Fatal(err)
	}
	if err := h.admin.SetExtraSpecs(h.Context(), name, specs); err != nil {
		h.Fatal(err)
	}
}

// server creates a server of a flavor and returns its id.
func (h *fixture) server(c *compute.Client, name, flavor string) string {
	h.Helper()
	made, err := c.CreateServer(h.Context(), compute.CreateServer{Name: name, Flavor: flavor})
	if err != nil {
		h.Fatal(err)
	}
	return made.ID
}

// prepare builds the request to Placement of a server, as the conductor does.
func (h *fixture) prepare(id string) lifecycle.Server {
	h.Helper()
	s, err := h.store.Read(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	var p lifecycle.Prepared
	options := flavor.Options{PCIInPlacement: true}
	if p.Ask, p.Requests, err = flavor.Ask(s.Flavor, s.SourceImage(), h.aliases, options, uuid.NewString); err != nil {
		h.Fatal(err)
	}
	if p.Topology, err = flavor.Topology(s.Flavor, s.SourceImage()); err != nil {
		h.Fatal(err)
	}
	h.apply(id, p)
	if s, err = h.store.Read(h.Context(), id); err != nil {
		h.Fatal(err)
	}
	return s
}

// assign chooses a host for a server and makes its claim succeed, so that the server is assigned to the host.
func (h *fixture) assign(id, hostname string) {
	h.Helper()
	s := h.prepare(id)
	var err error
	choice := schedule.Choice{Host: hostname, Root: rootID, Allocation: resource.Allocation{rootID: {"VCPU": 2}},
		Mappings: map[string][]provider.ID{"": {rootID}}}
	for _, r := range s.Requests {
		for i := range r.Count {
			choice.Mappings[r.GroupSuffix(i)] = []provider.ID{deviceID}
			choice.Allocation[deviceID] = resource.Amounts{r.Requirement.Class: 1}
		}
	}
	h.apply(id, lifecycle.Chosen{Choices: []schedule.Choice{choice}, Candidates: 2, Refused: "1 host: too small"})
	if s, err = h.store.Read(h.Context(), id); err != nil {
		h.Fatal(err)
	}
	h.apply(id, lifecycle.Claimed{Try: s.Try})
}

// apply applies an event to a server.
func (h *fixture) apply(id string, e lifecycle.Event) {
	h.Helper()
	if err := h.conductor.event(h.Context(), id, e); err != nil {
		h.Fatal(err)
	}
}

// dig returns a value of the body by its path: "server/flavor/id", "servers/0/name".
func (r reply) dig(path string) any {
	var v any = r.body
	for key := range strings.SplitSeq(path, "/") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func TestConcurrentCreationOfFiftyServers(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	var work sync.WaitGroup
	for i := range 50 {
		work.Go(func() {
			if _, err := h.admin.CreateServer(t.Context(), compute.CreateServer{Name: fmt.Sprint("s", i),
				Flavor: "small"}); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	list, err := h.admin.Servers(t.Context(), compute.ListServers{Status: "BUILD"})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range list {
		names[s.Name] = true
	}
	if len(list) != 50 || len(names) != 50 {
		t.Fatalf("%d servers with %d names", len(list), len(names))
	}
}

func TestInternalErrorIsLoggedAndHidden(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	h.conductor.room, h.conductor.fails = 0, fault.New(fault.Internal, "conductor.Create", "the secret is out")
	r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small"}}`)
	id := r.header.Get("X-Compute-Request-Id")
	if r.status != 500 || r.dig("computeFault/code") != 500.0 || strings.Contains(r.text, "secret") ||
		!strings.Contains(r.text, id) {
		t.Errorf("%d %s", r.status, r.text)
	}
	if log := h.log.String(); !strings.Contains(log, "the secret is out") || !strings.Contains(log, id) {
		t.Errorf("log: %s", log)
	}
	h.conductor.fails = fault.New(fault.Unavailable, "sqldb.Write", "the database is busy")
	if r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small"}}`); r.status != 503 ||
		r.dig("serviceUnavailable/message") != "the database is busy" {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// panickingConductor is a conductor with a bug.
type panickingConductor struct{ Conductor }

// Create panics.
func (panickingConductor) Create(context.Context, ...lifecycle.Server) ([]lifecycle.Server, error) {
	panic("a bug")
}

func TestPanicIsAnsweredWith500(t *testing.T) {
	h := startWith(t, func(o *Options) { o.Conductor = panickingConductor{o.Conductor} })
	h.flavor("small", nil)
	r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small"}}`)
	if r.status != 500 || r.dig("computeFault/code") != 500.0 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if log := h.log.String(); !strings.Contains(log, "a bug") || !strings.Contains(log, "server_test.go") {
		t.Errorf("the log has no cause or no location of the panic: %s", log)
	}
	if r := h.ask("GET", "/v2.1/servers", ""); r.status != 200 {
		t.Errorf("%d %s", r.status, r.text)
	}
}
