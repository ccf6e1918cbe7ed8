package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// A copy of the disk of a running guest is made by a backup job of libvirt: it has the content of the disk at the
// moment when the job begins, and changes nothing about the disk. The job continues when the agent ends, and is found
// by the name of its file. A file beside the copy says, from before they are frozen, that the guest's file systems may
// be frozen. Another one says that the job has begun while they were.

const (
	// backupPoll is the interval at which a backup job is looked at.
	backupPoll = 200 * time.Millisecond
	// thawTries is how often a guest is asked to thaw its file systems.
	thawTries = 3
	// backupEndTime is how long a job that is ended may go on, as while its storage does not answer.
	backupEndTime = time.Minute
)

// diskBackup copies the disk of a guest to a file, for one image.
type diskBackup struct {
	d    *Driver
	c    *rpc.Client
	of   domain
	to   hypervisor.Upload
	file string
}

// copyDisk makes a copy of the disk of a guest, unless an earlier call has made it for the same image, and returns its
// file. fresh is false if it existed.
func copyDisk(ctx context.Context, d *Driver, c *rpc.Client, of domain, to hypervisor.Upload) (file string, fresh bool,
	err error) {
	o := diskBackup{d, c, of, to, d.path(of.UUID.String(), copyPrefix+to.Image+".qcow2")}
	thaw(ctx, d, c, of.Domain, o.file)
	if _, err := os.Stat(o.file); err == nil {
		return o.file, false, nil
	}
	text, err := c.Backup(ctx, of.Domain)
	if err != nil {
		return "", false, err
	}
	if strings.Contains(text, o.file+datafile.Unfinished) && o.suffices() { // of a process that was killed
		return o.file, true, o.await(ctx)
	}
	if err := d.EndUpload(ctx, of.guest.ID); err != nil {
		return "", false, err
	}
	if !of.running() {
		return o.file, true, convertDisk(ctx, d.o.Images, of.guest, of.xml.Disk(), o.file)
	}
	if err := o.begin(ctx); err != nil {
		return "", false, err
	}
	return o.file, true, o.await(ctx)
}

// suffices reports whether a job that was found has the file systems as the copy requires. A request to begin it that
// was not answered in time may have been executed after they were thawed.
func (o diskBackup) suffices() bool {
	_, err := os.Stat(o.file + quiescedSuffix)
	return !o.to.Quiesce || err == nil
}

// EndUpload implements hypervisor.Uploader.
func (d *Driver) EndUpload(ctx context.Context, id string) error {
	c, found, there, err := locate(ctx, d, id)
	if err != nil {
		return fault.Wrap("", err)
	}
	if !there {
		return nil // its files are removed with it
	}
	if found.running() {
		text, err := c.Backup(ctx, found.Domain)
		if err == nil && strings.Contains(text, d.path(found.UUID.String(), copyPrefix)) {
			err = abortBackup(ctx, c, found)
		}
		if err != nil {
			return fault.Wrap("", err)
		}
	}
	thawAll(ctx, d, c, []rpc.Domain{found.Domain})
	files, err := copiesOf(d.directory, found.UUID)
	for _, file := range files {
		err = errors.Join(err, remove(file))
	}
	return fault.Wrap(fault.Unavailable, err)
}

// abortBackup ends the backup job of a domain, and returns after it has ended. Unavailable: it goes on after
// backupEndTime.
func abortBackup(ctx context.Context, c *rpc.Client, of domain) error {
	ctx, cancel := context.WithTimeoutCause(ctx, backupEndTime,
		errors.New("the job of libvirt that copies the disk does not end; check the storage of the host"))
	defer cancel()
	err := c.AbortJob(ctx, of.Domain)
	if known, is := errors.AsType[*rpc.Error](err); err != nil && (!is || known.Code != rpc.ErrOperationInvalid) {
		return err // of the other error the loop finds out whether the job has ended by itself since it was found
	}
	for {
		text, err := c.Backup(ctx, of.Domain)
		if err != nil || text == "" {
			return err
		}
		if err := pollBackup(ctx); err != nil {
			return err
		}
	}
}

// pollBackup waits for backupPoll.
func pollBackup(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, context.Cause(ctx))
	case <-time.After(backupPoll):
		return nil
	}
}

// backupXML returns the definition of a backup job of one disk.
func backupXML(target, file string) (string, error) {
	type attribute struct {
		Type string `xml:"type,attr,omitempty"`
		File string `xml:"file,attr,omitempty"`
	}
	type disk struct {
		Name   string    `xml:"name,attr"`
		Backup string    `xml:"backup,attr"`
		Type   string    `xml:"type,attr"`
		Driver attribute `xml:"driver"`
		Target attribute `xml:"target"`
	}
	text, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"domainbackup"`
		Mode    string   `xml:"mode,attr"`
		Disks   []disk   `xml:"disks>disk"`
	}{Mode: "push", Disks: []disk{{target, "yes", "file", attribute{Type: "qcow2"}, attribute{File: file}}}})
	return string(text), err
}

// begin starts the job that copies the disk of a running guest. The file systems are frozen until it has started, if
// the guest has an agent that does so.
func (o diskBackup) begin(ctx context.Context) error {
	text, err := backupXML(o.of.xml.DiskTarget(), o.file+datafile.Unfinished)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	if _, _, err := o.c.EndedJob(ctx, o.of.Domain); err != nil { // the result of an earlier one
		return err
	}
	err = o.freeze(ctx)
	quiesced := err == nil
	if err != nil {
		if o.to.Quiesce {
			return fault.New(fault.Conflict, "the file systems of the guest %s cannot be frozen, which os_require_quiesce of "+
				"its image requires: %w; install and start qemu-guest-agent in the guest, or stop the server", o.of.guest.ID, err)
		}
		o.d.o.Log.Info("disk copied without frozen file systems", "guest", o.of.guest.ID, "reason", err)
	}
	defer thaw(ctx, o.d, o.c, o.of.Domain, o.file)
	err = o.c.BeginBackup(ctx, o.of.Domain, text)
	if known, is := errors.AsType[*rpc.Error](err); is && !fault.Is(err, fault.NotFound) {
		return fault.New(fault.Conflict, "libvirt does not copy the disk of the guest %s: %w", o.of.guest.ID, known)
	}
	if err == nil && quiesced {
		err = fault.Wrap(fault.Unavailable, datafile.Replace(o.file+quiescedSuffix, nil))
	}
	return err
}

// freeze freezes the file systems of a guest. After an error they are not frozen.
func (o diskBackup) freeze(ctx context.Context) error {
	if !o.of.guest.Hardware.GuestAgent {
		return errors.New("hw_qemu_guest_agent of its image is not true, so it has no channel for the agent")
	}
	if err := datafile.Replace(o.file+frozenSuffix, nil); err != nil {
		return err
	}
	err := o.c.Freeze(ctx, o.of.Domain)
	if err != nil {
		thaw(ctx, o.d, o.c, o.of.Domain, o.file)
	}
	return err
}

// thaw thaws the file systems of a guest if they may be frozen for a copy. If the guest does not do it, the mark stays,
// and it is tried again.
func thaw(ctx context.Context, d *Driver, c *rpc.Client, of rpc.Domain, file string) {
	mark := file + frozenSuffix
	if _, err := os.Stat(mark); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute) // also when the copy is cancelled
	defer cancel()
	var err error
	for range thawTries {
		if err = c.Thaw(ctx, of); err == nil || ctx.Err() != nil {
			break
		}
		if state, _, gone := c.State(ctx, of); gone != nil || state == rpc.Shutoff || state == rpc.Crashed {
			err = gone
			break
		}
		time.Sleep(backupPoll)
	}
	if err == nil {
		err = remove(mark)
	}
	if err != nil {
		d.o.Log.Warn("file systems of a guest may be frozen; run `virsh domfsthaw` if it does not respond", "domain", of.Name,
			"error", err)
	}
}

// thawAll thaws the file systems that a process that was killed has frozen.
func thawAll(ctx context.Context, d *Driver, c *rpc.Client, all []rpc.Domain) {
	for _, one := range all {
		frozen, err := match(d.path(one.UUID.String()), copyPrefix+"*"+frozenSuffix)
		if err != nil {
			d.o.Log.Warn("whether file systems of a guest are frozen is not known", "domain", one.Name, "error", err)
		}
		for _, mark := range frozen {
			thaw(ctx, d, c, one, strings.TrimSuffix(mark, frozenSuffix))
		}
	}
}

// await returns after the job that copies the disk has ended. Then the copy is complete. If it is given up, EndUpload
// ends the job, or the next call finds it.
func (o diskBackup) await(ctx context.Context) error {
	for {
		text, err := o.c.Backup(ctx, o.of.Domain)
		switch {
		case err != nil:
			return err
		case text == "":
			return o.complete(ctx)
		}
		if err := pollBackup(ctx); err != nil {
			return err
		}
	}
}

// complete gives the copy its name if the job that has made it was successful.
func (o diskBackup) complete(ctx context.Context) error {
	failure, known, err := o.c.EndedJob(ctx, o.of.Domain)
	switch {
	case err != nil:
		return err
	case !known:
		err = fault.New(fault.Unavailable, "the guest %s has ended while its disk was copied", o.of.guest.ID)
	case strings.Contains(failure, "No space left"):
		err = fault.New(fault.Conflict, "the disk of the guest %s cannot be copied to %s: %s", o.of.guest.ID, o.file, failure)
	case failure != "":
		err = fault.New(fault.Unavailable, "the disk of the guest %s is not copied: %s", o.of.guest.ID, failure)
	default:
		return fault.Wrap(fault.Unavailable, datafile.Complete(o.file))
	}
	_ = remove(o.file + datafile.Unfinished) // it is useless and may fill the disk
	return err
}
