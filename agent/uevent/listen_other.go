//go:build !linux

package uevent

import (
	"context"

	"github.com/openberth/berth/fault"
)

// Listen returns Unavailable: only Linux has device events.
func Listen(context.Context, func()) error {
	return fault.New(fault.Unavailable, "only Linux has device events")
}
