package app

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// endpoints returns clients that connect in memory.
func (c *Cloud) endpoints() Endpoints {
	return Endpoints{c.PlacementClient(), c.HostClient(), c.NetworkClient(), c.images}
}

// runningAgent is an agent that runs in a goroutine of this process.
type runningAgent struct {
	agent *loop.Agent
	stop  context.CancelFunc
	ended chan struct{} // closed after err is set
	err   error
}

// firstReportTimeout is how long an agent may take to send its first report.
const firstReportTimeout = 2 * time.Minute

// StartAgent starts the agent and returns when compute has its first report. It returns the error of an agent that
// fails to start.
func (c *Cloud) StartAgent(ctx context.Context) error {
	began := time.Now()
	r, err := c.runAgent(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, firstReportTimeout)
	defer cancel()
	if err := c.awaitFirstReport(limited, r, began); err != nil {
		_ = c.StopAgent() // the fault is known
		return err
	}
	return nil
}

// runAgent starts the agent. It does not wait for it.
func (c *Cloud) runAgent(ctx context.Context) (*runningAgent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent != nil {
		return nil, fault.New(fault.Conflict, "the agent is already running")
	}
	agent, err := NewAgent(c.Settings, filepath.Join(c.Dir, AgentDir), c.endpoints(), c.log)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &runningAgent{agent: agent, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = agent.Run(running)
	}()
	c.agent = r
	return r, nil
}

// admissionRetry is the wait before an agent that compute has not admitted is started again.
const admissionRetry = 5 * time.Second

// KeepAgent runs the agent until ctx ends or the agent fails, and returns its fault. It starts an agent again that
// ended because another one serves the host. It calls reported at each first report of a start. The services do not
// depend on the agent.
func (c *Cloud) KeepAgent(ctx context.Context, reported func()) error {
	for {
		began := time.Now()
		r, err := c.runAgent(ctx)
		if err != nil {
			return err
		}
		if c.awaitFirstReport(ctx, r, began) == nil {
			reported()
		}
		select {
		case <-ctx.Done():
		case <-r.ended:
		}
		err = c.StopAgent()
		if ctx.Err() != nil || fault.CodeOf(err) != reconcile.NotAdmitted {
			return err
		}
		c.log.Warn("agent not admitted, will retry", "service", "agent", "error", err)
		if backoff.Sleep(ctx, admissionRetry) != nil {
			return nil
		}
	}
}

// awaitFirstReport waits until compute has a report later than began. It returns the fault of an agent that ends
// before.
func (c *Cloud) awaitFirstReport(ctx context.Context, r *runningAgent, began time.Time) error {
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
				return fault.New(fault.Unavailable, "the agent ended before its first report")
			}
			return r.err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) { // its cause can be the name of a signal
				return fault.New(fault.Unavailable, "the start was interrupted")
			}
			return fault.New(fault.Unavailable, "the agent has not reported within %s (%v)",
				firstReportTimeout, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// StopAgent stops the agent; its guests continue to run. It returns nil if no agent is running.
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

// Plan returns what the agent would change in Placement now, as text, and whether that is nothing.
func (c *Cloud) Plan(ctx context.Context) (text string, empty bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent == nil {
		return "", false, fault.New(fault.Unavailable, "the agent is not running")
	}
	plan, err := c.agent.agent.Plan(ctx)
	if err != nil {
		return "", false, err
	}
	var b strings.Builder
	err = plan.Print(&b)
	return b.String(), plan.Empty(), err
}
