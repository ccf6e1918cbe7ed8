package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// A libvirt that was installed again, or is another one because of its address or its directories, has none of the
// definitions of the guests. The driver recognises the libvirt that it knows by a marker, a secret without a value
// whose UUID is also in a file of the directory of guests, and by the domains of its guests. libvirt's host UUID does
// not distinguish two libvirts of one machine, and is another one at each start where the firmware has none.

// markerName is the name of the file with the UUID of the marker for a host without a name.
const markerName = "libvirt"

// markerPath returns the path of the file with the UUID of the marker: the one that records that the host has its
// guests in the directory.
func (d directory) markerPath() string {
	if d.o.Host == "" {
		return d.path(markerName)
	}
	return d.path(hostsDir, d.o.Host)
}

// recognise returns fault.Unavailable if libvirt is not the one that has the guests of the directory: it has neither
// the marker nor any of their domains.
func (d *Driver) recognise(ctx context.Context, c *rpc.Client) error {
	records, _, err := d.records()
	if err != nil {
		return err
	}
	guests := 0
	for id, record := range records {
		has, err := d.hasDisk(id)
		if err != nil {
			return err
		}
		if !record.Removing && (record.Made || record.Incoming && has) {
			guests++
		}
	}
	if guests == 0 {
		return nil
	}
	marked, err := d.isMarked(ctx, c)
	if err != nil || marked {
		return err
	}
	l := lister{d: d, c: c, records: records, used: map[uuid.UUID]bool{}, saved: map[uuid.UUID]bool{}}
	if err := l.list(ctx); err != nil {
		return err
	}
	for _, one := range l.own {
		if _, recorded := records[one.UUID]; recorded && !one.missing {
			return nil
		}
	}
	return fault.New(fault.Unavailable, "the libvirt at %s (%s) is not the one that has the guests "+
		"of %s: it has none of their %d definitions, and no marker of this host; no guest is touched: correct [libvirt] "+
		"connection_uri, start the libvirt that has them, or stop the agent and run `berth agent adopt`, which shows "+
		"first what would change", d.o.Socket, d.o.URI, d.o.Dir, guests)
}

// damagedMarker returns a remark if the file with the UUID of the marker exists and cannot be read.
func (d directory) damagedMarker() hypervisor.Remarks {
	_, err := os.ReadFile(d.markerPath())
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return hypervisor.Remarks{{Subject: d.markerPath(), Text: fmt.Sprintf("the file with the UUID of libvirt's marker "+
		"cannot be read: %s; remove it, and the agent writes it when it starts", err)}}
}

// isMarked reports whether libvirt has the marker. A libvirt without secrets has none, and so has a host whose file
// cannot be read: then its libvirt is recognised by the domains of guests.
func (d *Driver) isMarked(ctx context.Context, c *rpc.Client) (bool, error) {
	text, err := os.ReadFile(d.markerPath())
	if err != nil {
		return false, nil
	}
	id, err := uuid.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return false, nil
	}
	marked, err := rpc.HasSecret(ctx, c, id)
	if _, refused := errors.AsType[*rpc.Error](err); refused {
		return false, nil
	}
	return marked, err
}

// mark gives libvirt the marker, unless it has it. A libvirt without secrets is recognised by the domains of guests.
func (d *Driver) mark(ctx context.Context, c *rpc.Client) error {
	marked, err := d.isMarked(ctx, c)
	if err != nil || marked || d.damagedMarker() != nil {
		return err
	}
	id := uuid.New()
	err = rpc.DefineSecret(ctx, c, fmt.Sprintf("<secret ephemeral='no' private='no'><uuid>%s</uuid><description>Berth "+
		"recognises this libvirt by it</description></secret>", id))
	if refused, is := errors.AsType[*rpc.Error](err); is {
		d.o.Log.Warn("libvirt has no marker", "error", refused)
		return nil
	}
	if err != nil {
		return err
	}
	if err := datafile.Replace(d.markerPath(), []byte(id.String()+"\n")); err != nil {
		return fault.New(fault.Unavailable, "the marker of libvirt cannot be written: %w", err)
	}
	return nil
}

// Adoptable returns the guests as they are listed after Adopt, and why this libvirt is not used before; empty: it is
// used.
func (d *Driver) Adoptable(ctx context.Context) (guests []hypervisor.Guest, why string, err error) {
	c, err := rpc.Dial(ctx, d.o.Socket, d.o.URI, d.o.CallTime)
	if err != nil {
		return nil, "", fault.Wrap("", err)
	}
	defer c.Close()
	drain(c)
	if refusal := d.recognise(ctx, c); refusal != nil {
		why = fault.TextOf(refusal)
	}
	domains, _, err := d.list(ctx, c)
	return guestsOf(domains), why, fault.Wrap("", err)
}

// Adopt gives libvirt the marker, so that it is the one that the driver knows from now on. Guests that it lacks are
// defined again around their disks when they are built. It may be repeated.
func (d *Driver) Adopt(ctx context.Context) error {
	c, err := rpc.Dial(ctx, d.o.Socket, d.o.URI, d.o.CallTime)
	if err != nil {
		return fault.Wrap("", err)
	}
	defer c.Close()
	drain(c)
	if err := d.makeDir(""); err != nil {
		return err
	}
	if err := d.mark(ctx, c); err != nil {
		return fault.Wrap("", err)
	}
	if err := d.recognise(ctx, c); err != nil {
		return fault.New(fault.Conflict, "the marker of this host cannot be stored in libvirt, which has no secrets; "+
			"install its driver for secrets: %w", err)
	}
	return nil
}
