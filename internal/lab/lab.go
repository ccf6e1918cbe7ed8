// Package lab runs a program on a real Linux kernel that has what Berth is about: SR-IOV physical and virtual
// functions, plain PCI devices, an IOMMU and two NUMA nodes.
//
//	          one run                          the guest, seen from /sys/bus/pci/devices
//	payload/ ─────────▶ boot.sh ── QEMU ──▶    0000:11:00.0  NVMe PF, VFs .1 to .4   NUMA node 0
//	   run                                     0000:21:00.0  NVMe PF, VFs .1 to .4   NUMA node 1
//	   berth, …                                0000:22:00.0  e1000e NIC              NUMA node 1
//	output, status ◀──────────────────────     0000:00:03.0  edu device              no node
//
// The machine is emulated by QEMU without KVM, so that it is the same everywhere and boots in about 20 seconds on any
// x86_64 Debian. boot.sh is the whole of it and can be run by hand; Run is the same for tests. testdata/capture is a
// payload that prints the PCI part of /sys as an archive; testdata/lab.txtar is what it printed in the lab, and
// testdata/virtio.txtar what it printed on a virtual machine that has virtio devices alone.
//
// The tests that boot are behind the build tag lab.
package lab

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/openberth/berth/fault"
)

//go:embed boot.sh
var boot string

// failed is the status by which boot.sh says that the lab itself failed, and not the payload.
const failed = 125

// grace is how long boot.sh may take to switch the guest off and clean up after the context has ended.
const grace = 15 * time.Second

// Run boots the lab, copies payloadDir to /payload in the guest, runs ./run there as root, and returns what it printed
// on stdout and stderr together. Its programs must be static x86_64 binaries or scripts for busybox. The variables that
// boot.sh names (VFS, LAB_TIMEOUT in seconds, LAB_CACHE) are taken from the environment. Several runs may go on at
// once.
//
// The error is a fault: Unavailable when the lab failed (a payload without ./run, a package that cannot be had, a guest
// that was not done in time), with the last lines of the guest's console; Internal when the payload ended with another
// status than 0, which errors.As finds as an *exec.ExitError. The output is returned with the error as far as there is
// one.
func Run(ctx context.Context, payloadDir string) (output string, err error) {
	const op = "lab.Run"
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", boot, "boot.sh", payloadDir)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace

	err = cmd.Run()
	output = stdout.String()
	said := strings.TrimSpace(stderr.String())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return output, nil
	case ctx.Err() != nil:
		return output, fault.New(fault.Unavailable, op, "stopped before %s/run had ended: %w", payloadDir, context.Cause(ctx))
	case errors.As(err, &exit) && exit.Exited() && exit.ExitCode() != failed:
		return output, fault.New(fault.Internal, op, "%s/run ended in the guest with %w: %s", payloadDir, err, said)
	default:
		return output, fault.New(fault.Unavailable, op, "cannot run %s in the lab: %w: %s", payloadDir, err, said)
	}
}
