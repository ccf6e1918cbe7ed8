package setup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/openberth/berth/internal/join"
)

// Cloud is the cloud that init makes.
type Cloud struct {
	o   Options
	out io.Writer

	undoing bool // things are removed, not made

	joined *join.Joined // on a machine that has joined: the account of this host
}

func (c *Cloud) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// thing is one thing that init makes. made reports whether it exists as it should; make makes it, also if an earlier
// attempt was interrupted; undo removes it, also if it is gone already.
type thing struct {
	id   string // in the record
	what string // for people
	hint string // how to undo it alone, for people
	made func(context.Context) (bool, error)
	make func(context.Context) error
	undo func(context.Context) error

	later bool // a service makes it when it needs it; it is in the record for the undo
}

// clouds0 is the cloud of the user, which commands use by default.
const clouds0 = "berth"

func done(made bool) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return made, nil }
}

// driverOption returns the value of [DEFAULT] compute_driver.
func driverOption(driver string) string {
	if driver == Fake {
		return "fake.FakeDriver"
	}
	return "libvirt.LibvirtDriver"
}

// hostName returns the name of this host.
func hostName(c *Cloud) string {
	name, _ := os.Hostname() // the agent fails without one
	return cmp.Or(c.o.Host, name)
}
