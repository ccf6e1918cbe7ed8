package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

// hostAgent is the agent of a host.
type hostAgent struct {
	conf   string             // its configuration, for the next start
	cancel context.CancelFunc // nil while it is stopped
	ended  chan struct{}      // closed after err is set
	err    error
}

// stop stops the agent, if it runs.
func (h *hostAgent) stop() error {
	if h.cancel == nil {
		return nil
	}
	h.cancel()
	<-h.ended
	h.cancel = nil
	return h.err
}

// hostSettings writes the configuration of a host: a machine that the scenario has, a fake hypervisor, and conf.
func (c *cloud) hostSettings(name, conf string) (settings.Settings, error) {
	return c.settings(name, fmt.Sprintf("[DEFAULT]\nhost = %s\ncompute_driver = fake.FakeDriver\n[oslo_concurrency]\n"+
		"lock_path = %s\n[berth]\nsysfs = %s\nrescan_interval = 1\n", name, c.path("locks"), c.machine(name)),
		c.endpoint("neutron", "network"), conf)
}

// machine returns the path of the captured machine of a host.
func (c *cloud) machine(name string) string { return c.path(name + ".txtar") }

// useMachine gives a host the machine testdata/machines/<machine>.txtar.
func (c *cloud) useMachine(name, machine string) error {
	text, err := os.ReadFile(filepath.Join("testdata", "machines", machine+".txtar"))
	if err != nil {
		return err
	}
	return os.WriteFile(c.machine(name), text, 0o600)
}

// changeMachine replaces a text in the machine of a host, which must occur once.
func (c *cloud) changeMachine(name, old, text string) error {
	was, err := os.ReadFile(c.machine(name))
	if err != nil {
		return err
	}
	if n := strings.Count(string(was), old); n != 1 {
		return fmt.Errorf("the machine of %s has %q %d times", name, old, n)
	}
	return os.WriteFile(c.machine(name), []byte(strings.Replace(string(was), old, text, 1)), 0o600)
}

// agentParts writes the configuration of a host, and returns its settings and what its agent calls.
func (c *cloud) agentParts(name, conf string) (s settings.Settings, endpoints app.Endpoints, err error) {
	if s, err = c.hostSettings(name, conf); err == nil {
		endpoints, err = app.TCPEndpoints(s, c.services["placement"].server.URL, c.services["compute"].server.URL,
			rest.TLSFiles{})
	}
	return s, endpoints, err
}

func (c *cloud) agentDir(name string) string { return filepath.Join(c.path(name), app.AgentDir) }

// startAgent starts the agent of a host, or restarts it, and waits until compute has its report.
func (c *cloud) startAgent(name, conf string) error {
	h := c.hosts[name]
	if h == nil {
		h = &hostAgent{}
		c.hosts[name] = h
	}
	if err := h.stop(); err != nil {
		return err
	}
	h.conf = conf
	s, endpoints, err := c.agentParts(name, conf)
	if err != nil {
		return err
	}
	agent, err := app.NewAgent(s, c.agentDir(name), endpoints, c.log)
	if err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	h.cancel, h.ended, h.err = cancel, make(chan struct{}), nil
	go func() {
		defer close(h.ended)
		h.err = agent.Run(ctx)
	}()
	return c.awaitReport(name, h, began)
}

// awaitReport waits until compute has a report of a host that is later than began. It returns the error of an agent
// that ends before.
func (c *cloud) awaitReport(name string, h *hostAgent, began time.Time) error {
	for {
		hosts, err := c.hostAPI().Hosts(c.t.Context())
		for _, r := range hosts {
			if r.Host == name && r.Provider != "" && r.Seen.After(began) {
				return nil
			}
		}
		select {
		case <-h.ended:
			h.cancel = nil
			return errors.Join(errors.New("the agent ended before its first report"), h.err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Since(began) > limit {
			return fmt.Errorf("the agent of %s has not reported: %w", name, err)
		}
	}
}
