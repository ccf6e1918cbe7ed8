package main

import (
	"context"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/linuxguest"
)

type imageCmd struct {
	Run   imageRunCmd   `cmd:"" default:"withargs" help:"Run the image service (the default with flags)."`
	Build imageBuildCmd `cmd:"" help:"Build the image of a small Linux with a shell on its serial console, from Debian packages, to try servers."`
	cli.ImageCommands
}

type imageRunCmd struct {
	files
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:9292" env:"BERTH_LISTEN_IMAGE" placeholder:"HOST:PORT"`
}

// Run runs the image service until it is interrupted.
func (c *imageRunCmd) Run(ctx context.Context, s streams) error {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	return singleService{name: "image", address: c.Listen, dataDir: c.DataDir,
		entries: []string{app.ImageDir},
		open:    func() (*app.Service, error) { return app.OpenImage(c.DataDir, conf, log) }}.run(ctx, s, conf, log)
}

type imageBuildCmd struct {
	File string `arg:"" help:"The file to write, a raw disk of 48 MiB." type:"path"`
	Name string `help:"Also add it to the image service under this name. root logs in there with the key pair of the server." placeholder:"NAME"`
}

// Run builds the image, and replaces the file if it exists.
func (c *imageBuildCmd) Run(ctx context.Context, g *cli.Globals) error {
	if err := linuxguest.Build(ctx, c.File); err != nil || c.Name == "" {
		return err
	}
	add := cli.ImageAddCmd{Source: c.File, Name: c.Name, Format: "raw", Visibility: "shared",
		Property: map[string]string{"os_admin_user": "root"}}
	return add.Run(g)
}
