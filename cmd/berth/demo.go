package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli/demo"
	"github.com/openberth/berth/internal/cloud"
	"github.com/openberth/berth/pci"
)

type demoCmd struct {
	Stay    bool   `help:"Leave the cloud running after the tour, and print how to look around."`
	Sysfs   string `help:"Take the devices from this directory or captured machine instead of /sys." default:"/sys" type:"path" placeholder:"PATH"`
	Verbose bool   `help:"Show the log of the services."`
}

// Run takes the tour and fails if a step of it does not hold.
func (c *demoCmd) Run(ctx context.Context, s streams) (err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "berth-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sample, devices, err := c.devices(s.out)
	if err != nil {
		return err
	}
	settings, log, err := c.configure(s, dir, sample, devices)
	if err != nil {
		return err
	}
	all, err := cloud.Up(ctx, settings, dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	tour := demo.Cloud{Placement: all.PlacementClient(), Hosts: all.HostClient(), Host: settings.Host,
		Compute:   compute.NewClient("http://compute", rest.InMemory(all.Compute.Handler), "admin"),
		StopAgent: all.StopAgent, StartAgent: func() error { return all.StartAgent(ctx) }, Plan: all.Plan}
	if err := demo.Run(ctx, s.out, tour, devices); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nThe tour held in every step (%.1f s).\n", time.Since(began).Seconds())
	if !c.Stay {
		return nil
	}
	return stay(ctx, s, log, all)
}

// fewest is how many devices that are no bridge the tour needs.
const fewest = 2

// devices reads this machine's devices; where there are too few, the captured machine that the binary carries.
func (c *demoCmd) devices(out io.Writer) (sample bool, devices []pci.Device, err error) {
	fsys, err := cloud.OpenSysfs(c.Sysfs)
	if err == nil {
		devices, err = readDevices(fsys)
	}
	if err == nil && len(demo.Offered(devices)) >= fewest {
		fmt.Fprintf(out, "This tour uses the PCI devices of this machine (%s). Its hypervisor is a fake: nothing is detached from its driver.\n", c.Sysfs)
		return false, devices, nil
	}
	reason := "it has fewer than two PCI devices that are no bridge"
	if err != nil {
		reason = err.Error()
	}
	fmt.Fprintf(out, "This machine's own devices cannot be used (%s): this tour uses a CAPTURED machine instead, not this one.\n", reason)
	if fsys, err = cloud.OpenSysfs(cloud.SampleSysfs); err == nil {
		devices, err = readDevices(fsys)
	}
	return true, devices, err
}

func readDevices(fsys fs.FS) ([]pci.Device, error) {
	facts, err := sysfs.Read(fsys)
	return facts.Devices, err
}

// configure writes the tour's configuration file and reads it as any other.
func (c *demoCmd) configure(s streams, dir string, sample bool, devices []pci.Device) (cloud.Settings, *slog.Logger, error) {
	name, err := os.Hostname()
	if err != nil {
		return cloud.Settings{}, nil, err
	}
	path := filepath.Join(dir, "berth.conf")
	if err := os.WriteFile(path, []byte(demo.Config(name, devices)), 0o600); err != nil {
		return cloud.Settings{}, nil, err
	}
	level := slog.LevelError
	if c.Verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: level}))
	settings, err := cloud.ReadSettings(log, path)
	settings.Sysfs = c.Sysfs
	if sample {
		settings.Sysfs = cloud.SampleSysfs
	}
	fmt.Fprintf(s.out, "Its configuration:\n\n%s", demo.Config(name, devices))
	return settings, log, err
}

// stay serves the cloud over TCP, on the usual ports or, where they are taken, on free ones.
func stay(ctx context.Context, s streams, log *slog.Logger, all *cloud.Cloud) error {
	placement, err := listenNear("127.0.0.1:8778")
	if err != nil {
		return err
	}
	computeAt, err := listenNear("127.0.0.1:8774")
	if err != nil {
		return errors.Join(err, placement.Close())
	}
	p, c := "http://"+placement.Addr().String(), "http://"+computeAt.Addr().String()
	demo.LookAround(s.out, p, c)
	return serveOn(ctx, log, map[net.Listener]http.Handler{placement: all.Placement.Handler, computeAt: all.Compute.Handler})
}

func listenNear(address string) (net.Listener, error) {
	l, err := cloud.Listen(address, true)
	if err != nil {
		return cloud.Listen("127.0.0.1:0", true)
	}
	return l, nil
}
