package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli/demo"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/linuxguest"
	"github.com/openberth/berth/internal/ownlibvirt"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/pci"
)

// realLimit is the time limit of the tour of real guests, without the download of packages.
const realLimit = 3 * time.Minute

// buildLimit is the time limit of the image of the guests, with the download of packages.
const buildLimit = 15 * time.Minute

// runReal runs the tour of real guests on a libvirt daemon of its own, and fails if a step of it fails. Afterwards the
// daemon, the guests and their files are gone; the packages from which the image was built are kept.
func (c *demoCmd) runReal(ctx context.Context, s streams) (err error) {
	if c.Stay || c.PowerVM {
		return fault.New(fault.Invalid, "--real cannot be used with --stay or --powervm: its guests end with the tour")
	}
	if err := ownlibvirt.Check(); err != nil {
		return err
	}
	began := time.Now()
	// Short: the path of a Unix socket has at most 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "berth-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // guests run as another user
		return err
	}
	fmt.Fprintln(s.out, "This tour starts real guests, on a libvirt daemon of its own. It builds their image from "+
		"Debian packages.")
	disk := filepath.Join(dir, "disk.img")
	building, cancelBuild := context.WithTimeout(ctx, buildLimit)
	defer cancelBuild()
	if err := linuxguest.Build(building, disk); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, realLimit)
	defer cancel()
	var output bytes.Buffer
	virt, err := ownlibvirt.Start(ownlibvirt.Options{Dir: dir, Output: &output})
	if err != nil {
		return err
	}
	err = c.tourRealGuests(ctx, s, dir, disk, virt)
	virt.Close() // also ends the writes to output
	if err != nil {
		return fault.Wrap("", fmt.Errorf("%w%s", err, daemonOutput(output.String())))
	}
	fmt.Fprintf(s.out, "\nEvery step of the tour succeeded (%.1f s).\n", time.Since(began).Seconds())
	return nil
}

// daemonOutput returns the end of what libvirtd has printed, for an error.
func daemonOutput(text string) string {
	if text == "" {
		return ""
	}
	return "; libvirtd printed: " + text[max(0, len(text)-2000):]
}

// tourRealGuests starts the cloud and runs the tour.
func (c *demoCmd) tourRealGuests(ctx context.Context, s streams, dir, disk string,
	virt *ownlibvirt.Daemon) (err error) {
	if err := virt.Await(ctx); err != nil {
		return err
	}
	given, err := deviceToGive(c.Sysfs)
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	path, data := filepath.Join(dir, "berth.conf"), filepath.Join(dir, "data")
	config := demo.ConfigReal(name, virt.Socket, filepath.Join(dir, "guests"), given)
	err = errors.Join(os.WriteFile(path, []byte(config), 0o600), os.Mkdir(data, 0o700))
	if err != nil {
		return err
	}
	log := c.logger(s)
	conf, err := settings.Read(log, path)
	if err != nil {
		return err
	}
	conf.Sysfs, conf.LockPath = c.Sysfs, dir // the tour may run beside the agent of this machine
	fmt.Fprintf(s.out, "Its configuration:\n\n%s", config)
	all, err := app.Up(ctx, conf, data, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	images := image.Catalogue{REST: &rest.Client{Base: "http://image", HTTP: rest.InMemory(all.Image.Handler),
		Headers: map[string]string{"X-Auth-Token": "admin"}}}
	return demo.RunRealGuests(ctx, s.out, cloudOf(ctx, all, conf.Host), demo.RealGuests{Images: images, Disk: disk,
		Ready: linuxguest.Ready, Device: given})
}

// deviceToGive returns a PCI device that a guest can have without harm to this machine: not a bridge, alone in its
// IOMMU group, and without a driver or with that for guests. It returns nil if there is none.
func deviceToGive(path string) (*pci.Device, error) {
	list, err := readDevices(path)
	if err != nil {
		return nil, err
	}
	for _, d := range demo.Offered(list) {
		dir := filepath.Join(path, "bus/pci/devices", d.Address.String())
		group, err := os.ReadDir(filepath.Join(dir, "iommu_group/devices"))
		if err != nil || len(group) != 1 {
			continue
		}
		driver, err := os.Readlink(filepath.Join(dir, "driver"))
		free := errors.Is(err, fs.ErrNotExist) || err == nil &&
			slices.Contains([]string{"vfio-pci", "pci-stub"}, filepath.Base(driver))
		if free {
			return &d, nil
		}
	}
	return nil, nil
}
