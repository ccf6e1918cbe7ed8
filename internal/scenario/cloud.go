package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
)

// cloud is the services of a scenario, each at an address of the loopback interface that it keeps when it is restarted,
// and the agents of its hosts.
type cloud struct {
	t        *testing.T
	dir      string
	log      *slog.Logger
	services map[string]*service
	hosts    map[string]*hostAgent
	names    names
	variant  string // text of the scenario for $VARIANT
}

// service is a service of a cloud.
type service struct {
	server *httptest.Server
	conf   string // its configuration, for the next start

	mu      sync.Mutex
	running *app.Service // nil while it is stopped
}

// ServeHTTP passes a request to the service. While the service is stopped the connection breaks.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running == nil {
		panic(http.ErrAbortHandler)
	}
	running.Handler.ServeHTTP(w, r)
}

// newCloud returns a cloud in which nothing runs.
func newCloud(t *testing.T) *cloud {
	c := &cloud{t: t, dir: testenv.MemoryDir(t), log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		services: map[string]*service{}, hosts: map[string]*hostAgent{}}
	c.names = names{cloud: c}
	for _, name := range []string{"placement", "compute", "network"} {
		s := &service{}
		s.server = httptest.NewServer(s)
		t.Cleanup(s.server.Close)
		c.services[name] = s
	}
	t.Cleanup(c.close)
	return c
}

// close stops everything that runs.
func (c *cloud) close() {
	for _, name := range slices.Sorted(maps.Keys(c.hosts)) {
		if err := c.hosts[name].stop(); err != nil {
			c.t.Errorf("the agent of %s ended with an error: %v", name, err)
		}
	}
	for _, name := range []string{"compute", "network", "placement"} {
		if err := c.services[name].stop(); err != nil {
			c.t.Errorf("%s ended with an error: %v", name, err)
		}
	}
}

func (c *cloud) path(name string) string { return filepath.Join(c.dir, name) }

// expand replaces $DIR by the directory of the scenario, $VARIANT by the text of the variant, and {name} by the id of
// the object with the name.
func (c *cloud) expand(text string) (string, error) {
	return c.names.expand(strings.NewReplacer("$DIR", c.dir, "$VARIANT", c.variant).Replace(text))
}

// settings writes a configuration file and reads it.
func (c *cloud) settings(name string, sections ...string) (settings.Settings, error) {
	text, err := c.expand("[api]\nauth_strategy = noauth2\n" + strings.Join(sections, ""))
	if err != nil {
		return settings.Settings{}, err
	}
	path := c.path(name + ".conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return settings.Settings{}, err
	}
	s, err := settings.Read(c.log, path)
	s.Times = settings.TestTimes()
	s.RequestTime = testenv.Patience
	s.Times.Compute.LeaseTTL = time.Minute // renewals are late on a busy machine, and no other process waits for it
	return s, settings.AllErrors(err, path)
}

// endpoint returns a section that names a service, if the service runs.
func (c *cloud) endpoint(section, service string) string {
	if c.services[service].running == nil {
		return ""
	}
	return fmt.Sprintf("[%s]\nendpoint_override = %s\n", section, c.services[service].server.URL)
}

// startService starts a service, or restarts it. conf is more of its configuration.
func (c *cloud) startService(name, conf string) error {
	s := c.services[name]
	if err := s.stop(); err != nil {
		return err
	}
	s.conf = conf
	if name == "compute" {
		conf = c.endpoint("neutron", "network") + conf
	} else if name == "network" {
		conf = "[compute]\nendpoint_override = " + c.services["compute"].server.URL + "\n" + conf
	}
	config, err := c.settings(name, conf)
	if err != nil {
		return err
	}
	running, err := c.open(name, config)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
	return nil
}

// open opens a service on its directory.
func (c *cloud) open(name string, config settings.Settings) (*app.Service, error) {
	ctx := context.WithoutCancel(c.t.Context())
	if name == "placement" {
		url, err := app.PlacementURL(config, c.path(name))
		if err != nil {
			return nil, err
		}
		return app.OpenPlacement(ctx, url, config, settings.NoAuth2, c.log)
	}
	placement, err := app.PlacementOverTCP(config, c.services["placement"].server.URL, rest.TLSFiles{})
	if err != nil {
		return nil, err
	}
	if name == "network" {
		url, err := app.NetworkURL(config, c.path(name))
		if err != nil {
			return nil, err
		}
		return app.OpenNetwork(ctx, url, placement, config, c.log)
	}
	url, err := app.ComputeURL(config, c.path(name))
	if err != nil {
		return nil, err
	}
	return app.OpenCompute(ctx, url, placement, config, c.log)
}

// stop stops the service, if it runs. Its connections break; clients of the scenario keep none of them, as commands are
// processes of their own.
func (s *service) stop() error {
	s.mu.Lock()
	running := s.running
	s.running = nil
	s.mu.Unlock()
	if running == nil {
		return nil
	}
	err := running.Close()
	s.server.CloseClientConnections()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	return err
}

func (c *cloud) compute() *compute.Client {
	return compute.NewClient(c.services["compute"].server.URL, nil, "admin")
}

func (c *cloud) placement() *placement.Client {
	return placement.NewClient(c.services["placement"].server.URL, nil, "admin")
}

func (c *cloud) network() *network.Client {
	return network.NewClient(c.services["network"].server.URL, nil, "admin")
}

func (c *cloud) hostAPI() host.Client {
	return host.Client{REST: &rest.Client{Base: c.services["compute"].server.URL,
		Headers: map[string]string{"X-Auth-Token": "admin"}}}
}

// copyState replaces the directory to by a copy of from, in which no service may run.
func copyState(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(from, "*-wal"))
	if err == nil && len(left) > 0 {
		err = errors.New("the database is not closed: there is " + left[0])
	}
	return errors.Join(err, os.CopyFS(to, os.DirFS(from)))
}
