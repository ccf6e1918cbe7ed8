package server

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/internal/testenv"
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

// fixture is a server with a database of its own, and clients of it.
type fixture struct {
	*testing.T
	store     *store.Store
	conductor *fakeConductor
	aliases   pci.Aliases
	log       *testenv.Buffer // its log
	url       string
	admin     *compute.Client
	hosts     host.Client

	number int64 // of the last guest report
}

// start returns a fixture with default options.
func start(t *testing.T) *fixture { return startWith(t, func(*Options) {}) }

// startWith returns a fixture with changed options, on SQLite.
func startWith(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	return startOn(t, "sqlite:///"+filepath.Join(testenv.MemoryDir(t), "compute.db"), change)
}

// startOn returns a fixture with changed options on a database.
func startOn(t *testing.T, url string, change func(*Options)) *fixture {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
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
	st.SetDefaultZone("nova")
	aliases, err := pci.ParseAliases(true, `{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}`)
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{T: t, store: st, aliases: aliases, log: &testenv.Buffer{}}
	h.conductor = &fakeConductor{Conductor: conductor.New(st, nil, conductor.Config{}), store: st, room: -1}
	l := h.conductor
	o := Options{Store: st, Agents: l.Agents, Conductor: l, Audits: fakeAudits{}, Scheduler: l.Scheduler,
		Ports: fakePorts{}, FlavorOptions: catalog.FlavorOptions{Aliases: aliases, PCIInPlacement: true},
		Options: edge.Options{Authenticate: identity.NoAuth2, Log: slog.New(slog.NewTextHandler(h.log, nil))}}
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
	choice := schedule.Choice{Host: hostname, Zone: "nova", Root: rootID,
		Allocation: resource.Allocation{rootID: {"VCPU": 2}},
		Mappings:   map[string][]provider.ID{"": {rootID}}}
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
