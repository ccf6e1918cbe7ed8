package program

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	program := func(body string) Program {
		path := filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "_"))
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return Program{Option: "[berth] x", Path: path}
	}
	at := pci.Address{Bus: 0x17}
	t.Run("the argument is the address", func(t *testing.T) {
		if err := program(`[ "$#" = 1 ] && [ "$1" = 0000:17:00.0 ]`).Run(t.Context(), device.PCI(at)); err != nil {
			t.Error(err)
		}
	})
	t.Run("the arguments of a set", func(t *testing.T) {
		set := device.MatchedSet{Property: "fabric", Value: "p2-0", Devices: []device.ID{device.PCI(at), device.PCI(at)}}
		if err := program(`[ "$*" = "fabric p2-0 0000:17:00.0 0000:17:00.0" ]`).Prepare(t.Context(), set); err != nil {
			t.Error(err)
		}
	})
	t.Run("the fault has the last line of output", func(t *testing.T) {
		err := program("echo first; echo 'no such device' >&2; exit 3").Run(t.Context(), device.PCI(at))
		if !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(), "exit status 3") ||
			!strings.Contains(err.Error(), "no such device") || strings.Contains(err.Error(), "first") {
			t.Error(err)
		}
	})
	t.Run("missing program", func(t *testing.T) {
		err := Program{Option: "[berth] x", Path: filepath.Join(dir, "nowhere")}.Run(t.Context(), device.PCI(at))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "cannot run [berth] x: ") ||
			!strings.Contains(err.Error(), "nowhere") {
			t.Error(err)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		c := program("exec sleep 60")
		c.Limit = 50 * time.Millisecond
		if err := c.Run(t.Context(), device.PCI(at)); !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(),
			"longer than") {
			t.Error(err)
		}
	})
	t.Run("ended context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := program("exec sleep 60").Run(ctx, device.PCI(at)); !fault.Is(err, fault.Unavailable) {
			t.Error(err)
		}
	})
}
