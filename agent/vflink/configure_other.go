//go:build !linux

package vflink

import (
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/fault"
)

// Read returns NotFound: only Linux has VFs.
func (l Links) Read(vf vfconfig.VF) (vfconfig.Settings, error) {
	return vfconfig.Settings{}, fault.New(fault.NotFound, "only Linux has VFs")
}

// Set returns NotFound: only Linux has VFs.
func (l Links) Set(vfconfig.VF, vfconfig.Operation) error {
	return fault.New(fault.NotFound, "only Linux has VFs")
}
