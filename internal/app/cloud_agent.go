package app

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/agent/loop"
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent != nil {
		return fault.New(fault.Conflict, "app.StartAgent", "the agent is already running")
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

// awaitFirstReport waits until compute has a report later than began.
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
				return fault.New(fault.Unavailable, "app.StartAgent", "the agent ended before its first report")
			}
			return r.err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) { // its cause can be the name of a signal
				return fault.New(fault.Unavailable, "app.StartAgent", "the start was interrupted")
			}
			return fault.New(fault.Unavailable, "app.StartAgent", "the agent has not reported within %s (%v)",
				firstReportTimeout, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// AgentEnded returns a channel that is closed when the running agent has ended; StopAgent then returns the reason. It
// returns nil if no agent is running.
func (c *Cloud) AgentEnded() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent == nil {
		return nil
	}
	return c.agent.ended
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
		return "", false, fault.New(fault.Unavailable, "app.Plan", "the agent is not running")
	}
	plan, err := c.agent.agent.Plan(ctx)
	if err != nil {
		return "", false, err
	}
	var b strings.Builder
	err = plan.Print(&b)
	return b.String(), plan.Empty(), err
}
