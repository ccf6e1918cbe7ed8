// Package health checks devices: the errors that PCIe has reported, whether they answer, and a program of the operator.
package health

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/program"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/fault"
)

// The values of [berth] device_health_aer: which errors that PCIe reports count.
const (
	AllErrors   = "all" // fatal and nonfatal ones; both are uncorrectable
	FatalErrors = "fatal"
	NoErrors    = "none"
)

// Checker checks devices.
type Checker struct {
	FS      fs.FS // with the structure of /sys; nil: none
	Errors  string
	Program *program.Program // nil: none
}

// Result is what a check has found. The caller compares the counters with earlier ones.
type Result struct {
	Missing         bool   // the device is not on the host, and nothing else is known
	Failed          string // why the device has failed the check, as a clause; empty: it has not
	Counted         bool   // the device has error counters
	Fatal, Nonfatal int64  // errors that count
}

// Check checks a device. The fault means that it could not be checked.
func (c Checker) Check(ctx context.Context, id device.ID) (out Result, err error) {
	if c.FS != nil && !id.Address().IsIOSlot() {
		h, err := sysfs.ReadHealth(c.FS, id.Address())
		switch {
		case err != nil:
			return out, fault.New(fault.Unavailable, "cannot read the health of %s: %w", id, err)
		case !h.Exists:
			return Result{Missing: true}, nil
		case h.Silent:
			return Result{Failed: "it does not answer on PCIe"}, nil
		}
		if c.Errors != NoErrors {
			out.Counted, out.Fatal = h.Counted, h.Fatal
		}
		if c.Errors == AllErrors {
			out.Nonfatal = h.Nonfatal
		}
	}
	if c.Program == nil {
		return out, nil
	}
	err = c.Program.Run(ctx, id)
	if fault.Is(err, fault.Internal) {
		out.Failed = fmt.Sprintf("the program of %s: %s", c.Program.Option, fault.TextOf(err))
		err = nil
	}
	return out, err
}
