package main

import (
	"io"

	"github.com/openberth/berth/internal/settings"
)

type optionsCmd struct {
	Agent bool `help:"Only the options that an agent reads."`
}

// Run prints the options.
func (c *optionsCmd) Run(s streams) error {
	_, err := io.WriteString(s.out, settings.Sample(c.Agent))
	return err
}
