// Package demo is a guided tour of a small cloud: it uses the cloud over its APIs, from the first device to the last
// delete, prints what happens, and checks every printed sentence.
//
// It starts nothing itself: the caller passes the clients of a cloud and the functions that stop and start the agent.
// A step that fails ends the tour with a fault.
package demo

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Cloud is the cloud that the tour uses.
type Cloud struct {
	Placement  *placement.Client
	Compute    *compute.Client
	Network    *network.Client
	Hosts      host.Client
	Host       string // the name of the one host
	StopAgent  func() error
	StartAgent func() error
	// Plan returns what the agent would change in Placement now, as text, and whether that is nothing.
	Plan func(ctx context.Context) (text string, empty bool, err error)
}

// tour is one run of the tour.
type tour struct {
	Cloud
	ctx  context.Context
	out  io.Writer
	step int
}

// Run runs the tour and prints it to out. devices are the devices of the host.
func Run(ctx context.Context, out io.Writer, c Cloud, devices []pci.Device) error {
	t := &tour{Cloud: c, ctx: ctx, out: out}
	offered := Offered(devices)
	if err := t.facts(devices, offered); err != nil {
		return err
	}
	if err := t.tree(offered); err != nil {
		return err
	}
	if err := t.first(); err != nil {
		return err
	}
	if err := t.ports(); err != nil {
		return err
	}
	if err := t.race(len(offered) - 1); err != nil {
		return err
	}
	if err := t.restart(); err != nil {
		return err
	}
	return t.end()
}

func (t *tour) title(format string, args ...any) {
	t.step++
	fmt.Fprintf(t.out, "\n%d. %s\n\n", t.step, fmt.Sprintf(format, args...))
}

func (t *tour) say(format string, args ...any) {
	for line := range strings.SplitSeq(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n") {
		fmt.Fprintf(t.out, "   %s\n", line)
	}
}

// fail returns the fault of a step whose result is not as described.
func fail(format string, args ...any) error {
	return fault.New(fault.Internal, format, args...)
}
