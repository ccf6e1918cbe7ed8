package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli/demo"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/pci"
)

type demoCmd struct {
	Stay    bool   `help:"Keep the cloud running after the tour, and print how to explore it."`
	Sysfs   string `help:"Read the devices from this directory or captured machine instead of /sys." default:"/sys" type:"path" placeholder:"PATH"`
	PowerVM bool   `name:"powervm" help:"The tour of a PowerVM host with I/O slots, on a fake of NovaLink."`
	Real    bool   `help:"The tour of two real guests on a libvirt daemon of its own, as root."`
	Verbose bool   `help:"Show the log of the services."`

	ListenPlacement string `help:"With --stay: address of the Placement API. Default: 127.0.0.1:8778, or a free port if that is taken." env:"BERTH_LISTEN_PLACEMENT" placeholder:"HOST:PORT"`
	ListenCompute   string `help:"With --stay: address of the Compute API. Default: 127.0.0.1:8774, or a free port if that is taken." env:"BERTH_LISTEN_COMPUTE" placeholder:"HOST:PORT"`
	ListenImage     string `help:"With --stay: address of the Image API. Default: 127.0.0.1:9292, or a free port if that is taken." env:"BERTH_LISTEN_IMAGE" placeholder:"HOST:PORT"`
	ListenNetwork   string `help:"With --stay: address of the Networking API. Default: 127.0.0.1:9696, or a free port if that is taken." env:"BERTH_LISTEN_NETWORK" placeholder:"HOST:PORT"`
	ListenConsole   string `help:"With --stay: address of the console's web pages. Default: 127.0.0.1:8780, or a free port if that is taken; none: no console." env:"BERTH_LISTEN_CONSOLE" placeholder:"HOST:PORT"`
}

// Run runs the tour and fails if a step of it fails.
func (c *demoCmd) Run(ctx context.Context, s streams) (err error) {
	if c.Real {
		return c.runReal(ctx, s)
	}
	if c.PowerVM {
		return c.runPowerVM(ctx, s)
	}
	began := time.Now()
	var apis []*endpoint
	var pages *endpoint
	if c.Stay {
		if apis, pages, err = c.listen(); err != nil {
			return err
		}
		defer func() { _ = closeAll(apis...) }() // an error means that serve has closed them
	}
	dir, err := os.MkdirTemp("", "berth-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sample, found, err := devices(s.out, c.Sysfs, c.Sysfs == ownSysfs)
	if err != nil {
		return err
	}
	conf, log, err := c.configure(s, dir, sample, found)
	if err != nil {
		return err
	}
	all, err := app.Up(ctx, conf, dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	cloud := cloudOf(ctx, all, conf.Host)
	if err := demo.Run(ctx, s.out, cloud, found); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nEvery step of the tour succeeded (%.1f s).\n", time.Since(began).Seconds())
	if !c.Stay {
		return nil
	}
	if err := demo.LeaveServers(ctx, s.out, cloud, found); err != nil {
		return err
	}
	for i, service := range []*app.Service{all.Placement, all.Compute, all.Network, all.Image} {
		apis[i].handler = service.Handler
	}
	if pages != nil {
		shown, err := showCloud(all, pages, apis[1], log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, shown.Close()) }()
	}
	demo.LookAround(s.out, urlOf(pages), urlOf(apis[0]), urlOf(apis[1]))
	return serve(ctx, s, all.Settings.Connections, log, apis...)
}

// urlOf returns the address of an endpoint of the demo; empty: it is not served.
func urlOf(at *endpoint) string {
	if at == nil {
		return ""
	}
	return "http://" + at.listener.Addr().String()
}

// cloudOf returns what a tour uses of the services.
func cloudOf(ctx context.Context, all *app.Cloud, host string) demo.Cloud {
	return demo.Cloud{Placement: all.PlacementClient(), Hosts: all.HostClient(), Host: host,
		Compute:   compute.NewClient("http://compute", rest.InMemory(all.Compute.Handler), "admin"),
		Network:   all.NetworkClient(),
		StopAgent: all.StopAgent, StartAgent: func() error { return all.StartAgent(ctx) }, Plan: all.Plan}
}

// logger returns the log of the services: errors only, or everything with --verbose.
func (c *demoCmd) logger(s streams) *slog.Logger {
	level := slog.LevelError
	if c.Verbose {
		level = slog.LevelDebug
	}
	return newLog(s.log, level)
}

const (
	ownSysfs   = "/sys"
	minDevices = 2 // devices that are not bridges: one for the first server, one for the race
)

// devices reads the devices at path. If path is this machine's own /sys and has too few devices, it returns those of
// the captured machine in the binary.
func devices(out io.Writer, path string, own bool) (sample bool, list []pci.Device, err error) {
	list, err = readDevices(path)
	if err == nil && len(demo.Offered(list)) < minDevices {
		err = fault.New(fault.Invalid, "%s has fewer than %d PCI devices that are not bridges", path, minDevices)
	}
	const fake = "Its hypervisor is a fake: nothing is detached from its driver."
	switch {
	case err == nil && own:
		fmt.Fprintf(out, "This tour uses the PCI devices of this machine (%s). %s\n", path, fake)
	case err == nil:
		fmt.Fprintf(out, "This tour uses the PCI devices of a captured machine, %s, not of this one. %s\n", path, fake)
	case own:
		fmt.Fprintf(out, "This machine's own devices cannot be used (%s): this tour uses a CAPTURED machine instead, not "+
			"this one. %s\n", fault.TextOf(err), fake)
		list, err = readDevices(settings.SampleSysfs)
		return true, list, err
	}
	return false, list, err
}

func readDevices(path string) ([]pci.Device, error) {
	fsys, err := settings.OpenSysfs(path)
	if err != nil {
		return nil, err
	}
	facts, err := sysfs.Read(fsys)
	return facts.Devices, err
}

// configure writes the tour's configuration file and reads it in the same way as any other.
func (c *demoCmd) configure(s streams, dir string, sample bool,
	devices []pci.Device) (settings.Settings, *slog.Logger, error) {
	name, err := os.Hostname()
	if err != nil {
		return settings.Settings{}, nil, err
	}
	path := filepath.Join(dir, "berth.conf")
	if err := os.WriteFile(path, []byte(demo.Config(name, devices)), 0o600); err != nil {
		return settings.Settings{}, nil, err
	}
	log := c.logger(s)
	conf, err := settings.Read(log, path)
	conf.Sysfs, conf.LockPath = c.Sysfs, dir // the tour may run beside the agent of this machine
	if sample {
		conf.Sysfs = settings.SampleSysfs
	}
	fmt.Fprintf(s.out, "Its configuration:\n\n%s", demo.Config(name, devices))
	return conf, log, err
}

// listen opens the addresses at which the cloud is served after the tour: the given ones, or the default ones, or free
// ones if those are taken. It returns all endpoints, and that of the console: nil if there is none.
func (c *demoCmd) listen() (apis []*endpoint, pages *endpoint, err error) {
	placement := &endpoint{name: "placement", flag: "--listen-placement", address: c.ListenPlacement, noauth: true}
	compute := &endpoint{name: "compute", flag: "--listen-compute", address: c.ListenCompute, noauth: true}
	network := &endpoint{name: "network", flag: "--listen-network", address: c.ListenNetwork, noauth: true}
	image := &endpoint{name: "image", flag: "--listen-image", address: c.ListenImage, noauth: true}
	apis = []*endpoint{placement, compute, network, image}
	if c.ListenConsole != "none" {
		pages = &endpoint{name: "console", flag: "--listen-console", address: c.ListenConsole, noauth: true}
		apis = append(apis, pages)
	}
	usuals := []string{"127.0.0.1:8778", "127.0.0.1:8774", "127.0.0.1:9696", "127.0.0.1:9292", "127.0.0.1:8780"}
	for i, at := range apis {
		usual := usuals[i]
		given := at.address != ""
		if !given {
			at.address = usual
		}
		// The demo has no TLS, and noauth2 listens on loopback only.
		err := listen(settings.Settings{}, slog.New(slog.DiscardHandler), at)
		if err != nil && !given {
			at.address = "127.0.0.1:0"
			err = listen(settings.Settings{}, slog.New(slog.DiscardHandler), at)
		}
		if err != nil {
			return nil, nil, errors.Join(err, closeAll(apis[:i]...))
		}
	}
	return apis, pages, nil
}
