package libvirt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// The record of a guest is a file beside its disk, with the metadata of its domain. It is written before libvirt has
// the domain and before each change of the metadata, so the driver knows its guests also when libvirt lacks their
// definitions: an administrator has undefined a domain, or libvirt was installed again. A directory with a record is
// removed only when its guest is destroyed, or when its guest was never complete.

// recordName is the file name of the record.
const recordName = "guest.xml"

// records returns the records of the guests of this host by the UUID of their domain, and a remark for each that
// cannot be read.
func (d directory) records() (all map[uuid.UUID]domainxml.Guest, damaged hypervisor.Remarks, err error) {
	entries, err := os.ReadDir(d.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fault.New(fault.Unavailable, "the directory of guests cannot be read: %w", err)
	}
	all = map[uuid.UUID]domainxml.Guest{}
	for _, entry := range entries {
		id, err := uuid.Parse(entry.Name())
		if err != nil || id.String() != entry.Name() {
			continue
		}
		record, err := d.readRecord(id)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && record.Host != d.o.Host:
		case err != nil:
			path := d.path(id.String(), recordName)
			damaged = append(damaged, hypervisor.Remark{Subject: path, Text: fmt.Sprintf("the record %s of a guest cannot be "+
				"read: %s; restore it from a backup, or move its directory away if its server does not exist any more", path,
				err)})
		default:
			record.Host = ""
			all[id] = record
		}
	}
	return all, damaged, nil
}

// readRecord reads a record. The error is fs.ErrNotExist if there is none.
func (d directory) readRecord(id uuid.UUID) (domainxml.Guest, error) {
	text, err := os.ReadFile(d.path(id.String(), recordName))
	if err != nil {
		return domainxml.Guest{}, err
	}
	record, err := domainxml.DecodeGuest(text)
	if err == nil && record.Domain != id.String() {
		err = fmt.Errorf("it is that of the domain %s, so the directory is a copy", record.Domain)
	}
	if err == nil {
		_, err = record.Read()
	}
	return record, err
}

// writeRecord writes the record of a guest, and makes its directory. The file has either the old or the new content,
// also after a power failure.
func (d directory) writeRecord(id uuid.UUID, g domainxml.Guest) error {
	g.Host = d.o.Host
	text, err := domainxml.EncodeGuest(g)
	if err != nil {
		return err
	}
	if err := d.makeDir(id.String()); err != nil {
		return err
	}
	if err := datafile.Replace(d.path(id.String(), recordName), []byte(text)); err != nil {
		return fault.New(fault.Unavailable, "the record of the guest %s cannot be written: %w", g.ID,
			err)
	}
	return nil
}
