package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/cli/demo"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/novalink"
	"github.com/openberth/berth/internal/settings"
)

// demoInventory is the inventory file of the tour.
const demoInventory = `gpus in the first drawer:
  identification:
    vendor_id: '10DE'
    device_id: '1DB1'
    drc_name: U78CB.001.WZS06S2-P1-*
  resource_class: ` + demo.SlotClass + `
  traits: [CUSTOM_NVLINK]
`

// demoSystem returns the system of the tour: two GPUs, a network adapter of a virtual I/O server, an adapter in SR-IOV
// mode, and an empty slot.
func demoSystem() *novalink.System {
	network := func(index uint32, name string) *novalink.Slot {
		return &novalink.Slot{Index: index, Name: name, Description: "4-Port 10 Gigabit Ethernet", Vendor: "5348",
			Device: "5719", Class: "512", Revision: "1", SubsysVendor: "4116", SubsysDevice: "1056"}
	}
	owned, shared := network(0x21010012, "U78CB.001.WZS06S2-P1-C9"), network(0x21010013, "U78CB.001.WZS06S2-P1-C10")
	owned.ForeignID, owned.ForeignName = "1", "vios1"
	return &novalink.System{UUID: "4d3f5c1a-8e1b-4a77-9f0e-52d7a3c1b604", Name: "Server-8335-GTH-SN0000000",
		Owner: true, SRIOV: []string{fmt.Sprint(shared.Index)}, Slots: []*novalink.Slot{
			novalink.GPU(0x21010010, "U78CB.001.WZS06S2-P1-C7"), novalink.GPU(0x21010011, "U78CB.001.WZS06S2-P1-C8"),
			owned, shared, novalink.Empty(0x21010014, "U78CB.001.WZS06S2-P1-C11")}}
}

// runPowerVM runs the tour of a PowerVM host on a fake of NovaLink, and fails if a step of it fails.
func (c *demoCmd) runPowerVM(ctx context.Context, s streams) (err error) {
	if c.Stay {
		return fault.New(fault.Invalid, "--stay cannot be used with --powervm, whose system ends with the tour")
	}
	began := time.Now()
	dir, err := os.MkdirTemp("", "berth-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fake := novalink.New(novalink.Options{TokenDir: dir}, demoSystem())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: fake, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // Close ends it
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Fprintln(s.out, "This tour uses a fake of PowerVM NovaLink, with the adapters of an invented system.")
	path, err := writeSlotConfig(dir, "http://"+listener.Addr().String())
	if err != nil {
		return err
	}
	log := c.logger(s)
	conf, err := settings.Read(log, path)
	if err != nil {
		return err
	}
	conf.LockPath = dir
	all, err := app.Up(ctx, conf, dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	tour, err := slotTour(ctx, path, fake)
	if err != nil {
		return err
	}
	if err := demo.RunPowerVM(ctx, s.out, cloudOf(ctx, all, conf.Host), tour); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nEvery step of the tour succeeded (%.1f s).\n", time.Since(began).Seconds())
	return nil
}

// writeSlotConfig writes the configuration and the inventory file of the tour.
func writeSlotConfig(dir, url string) (path string, err error) {
	path = filepath.Join(dir, "berth.conf")
	inventory := filepath.Join(dir, "inventory.yaml")
	text := fmt.Sprintf("[DEFAULT]\nhost = cmp1\ncompute_driver = %s\nallow_resize_to_same_host = true\n\n[api]\n"+
		"auth_strategy = noauth2\n\n[berth]\nrescan_interval = 1\n\n[powervm]\nurl = %s\ninventory_files = %s\n",
		settings.PowerVMDriver, url, inventory)
	return path, errors.Join(os.WriteFile(path, []byte(text), 0o600),
		os.WriteFile(inventory, []byte(demoInventory), 0o600))
}

// slotTour returns what the tour shows of the system.
func slotTour(ctx context.Context, config string, fake *novalink.Server) (demo.PowerVM, error) {
	checked, err := settings.CheckSlots(ctx, settings.SlotSelection{}, config)
	if err != nil {
		return demo.PowerVM{}, err
	}
	var slots strings.Builder
	if err := settings.WriteSlots(&slots, checked.Slots); err != nil {
		return demo.PowerVM{}, err
	}
	return demo.PowerVM{Slots: slots.String(), Inventory: demoInventory, Owners: func() map[string]string {
		out := map[string]string{}
		fake.Change(func(_ *novalink.Options, systems []*novalink.System) {
			for index, name := range systems[0].Owners() {
				out[fmt.Sprintf("%08X", index)] = name
			}
		})
		return out
	}}, nil
}
