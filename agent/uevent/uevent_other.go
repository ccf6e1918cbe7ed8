//go:build !linux

package uevent

import (
	"context"

	"github.com/openberth/berth/fault"
)

// Listen answers that only Linux tells.
func Listen(context.Context, func()) error {
	return fault.New(fault.Unavailable, "uevent.Listen", "only Linux tells of devices that come and go")
}
