package main

import (
	"context"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
)

type imageCmd struct {
	Run imageRunCmd `cmd:"" default:"withargs" help:"Run the image service (the default)."`
	cli.ImageCommands
}

type imageRunCmd struct {
	files
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:9292" placeholder:"HOST:PORT"`
}

// Run runs the image service until it is interrupted. It locks the data directory, also for a directory of images
// elsewhere.
func (c *imageRunCmd) Run(ctx context.Context, s streams) error {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	return singleService{name: "image", address: c.Listen, dataDir: c.DataDir,
		entries: []string{app.LockFile, app.ImageDir},
		open:    func() (*app.Service, error) { return app.OpenImage(c.DataDir, conf, log) }}.run(ctx, s, conf, log)
}
