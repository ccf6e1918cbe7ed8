package libvirt

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// tryTime limits how long the guest of tryKVM may run. It usually needs less than a second.
const tryTime = 10 * time.Second

// trial is a program for the boot sector of a machine of the type q35. It does what boot loaders do, and powers the
// machine off. The KVM of some virtual machines fails at the return.
var trial = []byte{
	0xfa, 0x31, 0xc0, 0x8e, 0xd8, // cli; ds = 0
	0x66, 0x0f, 0x01, 0x16, 0x58, 0x7c, // load the table of segments
	0x0f, 0x20, 0xc0, 0x0c, 0x01, 0x0f, 0x22, 0xc0, // protected mode
	0xea, 0x18, 0x7c, 0x08, 0x00, // jump to the next line, with the segment of code
	0x66, 0xb8, 0x10, 0x00, 0x8e, 0xd8, 0x8e, 0xd0, // ds and ss: the segment of data
	0xbc, 0x00, 0x70, 0x00, 0x00, // esp = 0x7000
	0x9c, 0x0e, 0x68, 0x2d, 0x7c, 0x00, 0x00, 0xcf, // return from an interrupt, to the next line
	0x66, 0xba, 0x04, 0x06, 0x66, 0xb8, 0x00, 0x20, 0x66, 0xef, // write S5 to PM1a_CNT: power off
	0xf4, 0xeb, 0xfd, // halt
	0, 0, 0, 0, 0, 0, // the table of segments begins at a multiple of 8
	0, 0, 0, 0, 0, 0, 0, 0, // none
	0xff, 0xff, 0x00, 0x00, 0x00, 0x9a, 0xcf, 0x00, // code, 4 GiB
	0xff, 0xff, 0x00, 0x00, 0x00, 0x92, 0xcf, 0x00, // data, 4 GiB
	0x17, 0x00, 0x40, 0x7c, 0x00, 0x00, // the table's length less 1, and its address
}

// tryKVM returns why KVM does not work. libvirt also reports a KVM that cannot start a guest, or that stops it soon, as
// in some virtual machines. So a small guest is started, which powers itself off. Only a failure counts: a guest that
// still runs at the end of the time has a slow host.
func (d *Driver) tryKVM(ctx context.Context, c *rpc.Client, host domainxml.Host) error {
	if _, err := c.DomainCapabilities(ctx, host.Arch, host.Machine, "kvm"); err != nil {
		return err
	}
	host.KVM = true
	return d.try(ctx, c, host, tryTime)
}

// try starts the guest of a trial and waits until it has ended, from then on for limit at most.
func (d *Driver) try(ctx context.Context, c *rpc.Client, host domainxml.Host, limit time.Duration) error {
	disk, err := trialDisk(d)
	if err != nil { // such as a full file system, which must not keep the agent from its guests
		d.o.Log.Warn("guests are not tried", "error", err)
		return nil
	}
	defer os.Remove(disk) // what a crash leaves is small
	made, err := domainxml.Make(host, uuid.NewString(), hypervisor.Guest{VCPUs: 1, MemoryMB: 64},
		domainxml.Files{Disk: disk})
	if err != nil {
		return err
	}
	made.Devices.Disks[0].Driver.Type, made.Devices.Disks[0].Driver.Cache = "raw", ""
	text, err := domainxml.Encode(made)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	tried, err := c.Try(ctx, text)
	if err != nil {
		return err
	}
	return errors.Join(awaitEnd(ctx, c, tried, limit), end(ctx, c, tried))
}

// trialDisk makes a disk that boots the program trial. libvirt gives it to QEMU's user.
func trialDisk(d *Driver) (path string, err error) {
	if err := d.makeDir(""); err != nil {
		return "", err
	}
	sectors := make([]byte, 1<<20) // SeaBIOS boots no disk of one sector
	copy(sectors, trial)
	sectors[510], sectors[511] = 0x55, 0xaa
	file, err := os.CreateTemp(d.o.Dir, "_kvm-*.img")
	if err == nil {
		_, err = file.Write(sectors)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return "", err
	}
	return file.Name(), nil
}

// awaitEnd waits until a guest has ended, for limit at most. It returns an error if QEMU has paused it.
func awaitEnd(ctx context.Context, c *rpc.Client, of rpc.Domain, limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		state, reason, err := c.State(ctx, of)
		switch {
		case fault.Is(err, fault.NotFound):
			return nil
		case err != nil:
			return err
		case pauseOf(state, reason) != "":
			return errors.New("QEMU has paused a guest that was tried; its log in /var/log/libvirt/qemu has the reason")
		}
		if err := backoff.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
