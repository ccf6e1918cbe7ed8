package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/agent/cleaner"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/uevent"
	"github.com/openberth/berth/api/host"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// Roads are an agent's ways to the two services that it asks.
type Endpoints struct {
	Placement *api.Client
	Compute   host.Client
}

// OverTCP are roads over the network.
func TCPEndpoints(placementURL, computeURL string) Endpoints {
	// No timeout on the whole: assignments are a stream without end. What may not hang has its own context.
	road := &http.Client{}
	return Endpoints{api.NewClient(placementURL, nil, serviceToken), hostClient(strings.TrimSuffix(computeURL, "/"), road)}
}

// roads are ways within this process.
func (c *Cloud) endpoints() Endpoints { return Endpoints{c.PlacementClient(), c.HostClient()} }

// NewAgent makes the agent of this host with its journal and its guests under dir. It starts nothing.
func NewAgent(s settings.Settings, dir string, roads Endpoints, log *slog.Logger) (*loop.Agent, error) {
	sys, err := settings.OpenSysfs(s.Sysfs)
	if err != nil {
		return nil, err
	}
	guests, err := fake.New(filepath.Join(dir, "guests"), s.Capacity)
	if err != nil {
		return nil, err
	}
	if s.LockPath != "" {
		if err := os.MkdirAll(s.LockPath, 0o700); err != nil {
			return nil, fault.New(fault.Unavailable, "app.NewAgent", "cannot make the directory for locks; set [oslo_concurrency] lock_path to one "+
				"that can be written: %w", err)
		}
	}
	o := loop.Options{Host: s.Host, LockDir: s.LockPath, Machine: machineIdentity(s.LockPath), Sys: sys, Rules: s.Rules, ReportInPlacement: s.ReportInPlacement,
		Placement: roads.Placement, Compute: roads.Compute, Hypervisor: guests, Dir: dir, Log: log.With("house", "agent"), Rescan: s.Rescan,
		CPUs: s.HostSettings.CPUs}
	if s.HostSettings.Clean != "" {
		o.Clean = cleaner.Cleaner{Path: s.HostSettings.Clean}
	}
	if s.Sysfs == "/sys" { // the kernel tells of its own devices, not of a captured machine's
		o.Events = uevent.Listen
	}
	return loop.New(o)
}

// runningAgent is an agent that runs in a goroutine of this process.
type runningAgent struct {
	agent *loop.Agent
	stop  context.CancelFunc
	ended chan struct{} // closed after err is set
	err   error
}

// startTime is how long an agent may take to report for the first time.
const firstReportTimeout = 2 * time.Minute

// StartAgent starts the agent and returns when compute has its first report. A start that is refused is the fault.
func (c *Cloud) StartAgent(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent != nil {
		return fault.New(fault.Conflict, "app.StartAgent", "the agent runs already")
	}
	agent, err := NewAgent(c.Settings, filepath.Join(c.Dir, AgentDir), c.endpoints(), c.log)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &runningAgent{agent: agent, stop: stop, ended: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(r.ended)
		r.err = agent.Run(running)
	}()
	if err := c.awaitFirstReport(ctx, r, began); err != nil {
		stop()
		<-r.ended
		return err
	}
	c.agent = r
	return nil
}

// reported waits for the first report since began.
func (c *Cloud) awaitFirstReport(ctx context.Context, r *runningAgent, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, firstReportTimeout)
	defer cancel()
	for {
		hosts, err := c.HostClient().Hosts(ctx)
		for _, h := range hosts {
			if h.Host == c.Settings.Host && h.Seen.After(began) {
				return nil
			}
		}
		select {
		case <-r.ended:
			if r.err == nil {
				return fault.New(fault.Unavailable, "app.StartAgent", "the agent ended at once")
			}
			return r.err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) { // its cause may be the signal's name
				return fault.New(fault.Unavailable, "app.StartAgent", "the start was interrupted")
			}
			return fault.New(fault.Unavailable, "app.StartAgent", "the agent has not reported within %s (%v)", firstReportTimeout, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// AgentEnded returns a channel that is closed when the agent that runs now has ended; StopAgent returns why. Nil when
// none runs.
func (c *Cloud) AgentEnded() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent == nil {
		return nil
	}
	return c.agent.ended
}

// StopAgent ends the agent; its guests go on. It is no error when none runs.
func (c *Cloud) StopAgent() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent == nil {
		return nil
	}
	r := c.agent
	c.agent = nil
	r.stop()
	<-r.ended
	return r.err
}

// Plan is what the agent would change in Placement now, in words, and whether that is nothing.
func (c *Cloud) Plan(ctx context.Context) (text string, empty bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent == nil {
		return "", false, fault.New(fault.Unavailable, "app.Plan", "the agent does not run")
	}
	plan, err := c.agent.agent.Plan(ctx)
	if err != nil {
		return "", false, err
	}
	var b strings.Builder
	err = plan.Print(&b)
	return b.String(), plan.Empty(), err
}

// PrintPlan prints what an agent with these settings would change in Placement now. A plan that may not be carried out is a fault.
func PrintPlan(ctx context.Context, s settings.Settings, dir string, roads Endpoints, log *slog.Logger, out io.Writer, asJSON bool) error {
	agent, err := NewAgent(s, dir, roads, log)
	if err != nil {
		return err
	}
	plan, err := agent.Plan(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		err = json.NewEncoder(out).Encode(loop.PlanDoc(plan))
	} else {
		err = plan.Print(out)
	}
	if err == nil && len(plan.Objections) > 0 {
		if len(plan.Objections) == 1 {
			return fault.New(fault.Conflict, "app.PrintPlan", "the plan may not be carried out: %s", plan.Objections[0])
		}
		var sentences []string
		for _, o := range plan.Objections {
			sentences = append(sentences, o.String())
		}
		return settings.Combine(fault.Conflict, "app.PrintPlan", sentences)
	}
	return err
}
