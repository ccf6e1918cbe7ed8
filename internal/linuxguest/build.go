// Package linuxguest builds a disk image of a small Linux guest from Debian packages, for `berth image build`,
// the demo and tests.
//
// The guest boots under SeaBIOS in seconds even with an emulated CPU. It takes its host name, its static IPv4 addresses
// and the keys with which root logs in by ssh from its config drive, prints them and its PCI devices to its first
// serial port, and runs a shell there. build-image.sh does all of it and can be run by hand.
package linuxguest

import (
	"bytes"
	"context"
	_ "embed"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/openberth/berth/fault"
)

//go:embed build-image.sh
var script string

// Ready is what the guest prints when it has finished its start. The shell follows.
const Ready = "guest: ready"

// Build writes the image, a raw disk, to a file. The fault is Unavailable if a package cannot be downloaded or a
// program is missing, with the reason. The packages are downloaded once; see the script for where they are kept.
func Build(ctx context.Context, file string) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", script, "build-image.sh", file)
	cmd.Stderr = &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return fault.New(fault.Unavailable, "the image of the guest cannot be built: %w: %s", err,
			strings.TrimSpace(stderr.String()))
	}
	return nil
}
