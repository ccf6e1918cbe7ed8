package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/setup"
)

// initCmd makes a cloud on this machine.
type initCmd struct {
	Make  initMakeCmd  `cmd:"" default:"withargs" help:"Make the cloud, or complete it (the default)."`
	Token initTokenCmd `cmd:"" help:"Print a token with which one more machine joins the cloud of this machine."`
}

type initMakeCmd struct {
	File   string `help:"File with options, in YAML; flags have priority." type:"path" placeholder:"FILE"`
	Driver string `help:"libvirt for virtual machines, or fake to try the services: guests are files then. Default: libvirt."`
	Listen string `help:"Address of this machine at which the APIs are served, with TLS, also to other machines. Default: 127.0.0.1:8770, for this machine only." placeholder:"IP[:PORT]"`
	Subnet string `help:"Range of addresses of the network. Default: a private range that this machine has no route into." placeholder:"CIDR"`

	Join  string `help:"Join this machine to the cloud at this URL as a host, with a token of berth init token as argument. An interrupted run is completed without the token." placeholder:"URL" xor:"what"`
	Token string `arg:"" optional:"" help:"With --join: the token."`
	Plan  bool   `help:"Only print what would be made, and what prevents it." xor:"what"`
	Undo  bool   `help:"Remove what berth init has made." xor:"what"`
	Force bool   `help:"With --undo: also with servers and images, which are deleted."`

	initDirs
}

// initDirs are the directories of the cloud.
type initDirs struct {
	ConfigDir string `help:"Directory of the configuration. Default: /etc/berth." placeholder:"DIR"`
	DataDir   string `help:"Directory of the state. Default: /var/lib/berth." placeholder:"DIR"`
	Home      string `help:"Home directory for clouds.yaml and the key for ssh. Default: that of the user who calls, also by sudo." placeholder:"DIR"`
}

// Run makes, shows or removes the cloud.
func (c *initMakeCmd) Run(ctx context.Context, s streams) error {
	var given setup.Options
	if c.File != "" {
		var err error
		if given, err = setup.ReadFile(c.File); err != nil {
			return err
		}
	}
	given.Driver, given.Listen = cmp.Or(c.Driver, given.Driver), cmp.Or(c.Listen, given.Listen)
	given.Network.CIDR = cmp.Or(c.Subnet, given.Network.CIDR)
	given.Config, given.Data = cmp.Or(c.ConfigDir, given.Config), cmp.Or(c.DataDir, given.Data)
	given.Home = cmp.Or(c.Home, given.Home)
	usual, err := callingUser()
	if err != nil {
		return err
	}
	if c.Join != "" {
		return c.join(ctx, given, usual, s)
	}
	if c.Token != "" {
		return fault.New(fault.Invalid, "%q is not expected: only --join takes a token", c.Token)
	}
	cloud, err := setup.New(given, usual, s.out)
	switch {
	case err != nil:
		return err
	case c.Plan:
		return cloud.Plan(ctx)
	case c.Undo:
		return cloud.Undo(ctx, c.Force)
	}
	return cloud.Make(ctx)
}

// callingUser returns the options of the user who calls the command, also by sudo.
func callingUser() (o setup.Options, err error) {
	name := os.Getenv("SUDO_USER")
	if name == "" || name == "root" {
		o.Home, err = os.UserHomeDir()
		if err != nil {
			err = fault.New(fault.Invalid, "the home directory is not known: %w; give --home", err)
		}
		return o, err
	}
	u, err := user.Lookup(name)
	if err != nil {
		return o, fault.New(fault.Invalid, "the user %s of sudo is not known: %w; give --home", name, err)
	}
	return setup.Options{User: name, Home: u.HomeDir}, nil
}

// join joins this machine to a cloud.
func (c *initMakeCmd) join(ctx context.Context, given, usual setup.Options, s streams) error {
	if c.Listen != "" || c.Subnet != "" {
		return fault.New(fault.Invalid, "--join excludes --listen and --subnet: the first machine has them")
	}
	if err := setup.CheckURL(c.Join); err != nil {
		return err
	}
	given.Join = c.Join
	return setup.Join(ctx, given, usual, c.Token, s.out)
}

type initTokenCmd struct {
	Valid   time.Duration `help:"How long the token is valid. Default: ${default}." default:"1h"`
	DataDir string        `help:"Directory of the state of the cloud. Default: ${default}." default:"/var/lib/berth" placeholder:"DIR"`
}

// Run prints the command for the other machine.
func (c *initTokenCmd) Run(s streams) error {
	token, address, err := setup.Token(c.DataDir, c.Valid)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.log, "Run this on the other machine within %s; it works once:\n", c.Valid)
	_, err = fmt.Fprintf(s.out, "berth init --join %s %s\n", address, token)
	return err
}
