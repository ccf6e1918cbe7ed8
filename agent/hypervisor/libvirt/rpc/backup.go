package rpc

import (
	"context"

	"github.com/digitalocean/go-libvirt"
)

// BeginBackup starts a job that copies disks of a running domain, as they are now, to files. libvirt makes the files.
// The job continues when the connection ends.
func (c *Client) BeginBackup(ctx context.Context, of Domain, xml string) error {
	return change(ctx, c, starts, func(l *libvirt.Libvirt) error {
		return l.DomainBackupBegin(of.known(), xml, nil, 0)
	})
}

// Backup returns the definition of the backup job of a domain in XML; empty: there is none.
func (c *Client) Backup(ctx context.Context, of Domain) (string, error) {
	text, err := call(ctx, c, reads, func(l *libvirt.Libvirt) (string, error) {
		return l.DomainBackupGetXMLDesc(of.known(), 0)
	})
	if hasCode(err, libvirt.ErrNoDomainBackup) || hasCode(err, ErrOperationInvalid) { // the domain has ended
		return "", nil
	}
	return text, notFound(err)
}

// EndedJob returns why the last job of a running domain has failed; empty if it was completed. known is false if no
// job has ended, or its result was returned before.
func (c *Client) EndedJob(ctx context.Context, of Domain) (failure string, known bool, err error) {
	type result struct {
		kind   int32
		params []libvirt.TypedParam
	}
	got, err := call(ctx, c, reads, func(l *libvirt.Libvirt) (out result, err error) {
		out.kind, out.params, err = l.DomainGetJobStats(of.known(), libvirt.DomainJobStatsCompleted)
		return out, err
	})
	if hasCode(err, ErrOperationInvalid) { // the domain has ended
		return "", false, nil
	}
	if err != nil {
		return "", false, notFound(err)
	}
	switch libvirt.DomainJobType(got.kind) {
	case libvirt.DomainJobNone:
		return "", false, nil
	case libvirt.DomainJobCompleted:
		return "", true, nil
	}
	for _, p := range got.params {
		if text, is := p.Value.I.(string); is && p.Field == libvirt.DomainJobErrmsg {
			return text, true, nil
		}
	}
	return "the job of libvirt has failed", true, nil
}

// Freeze makes the guest agent freeze all file systems of a guest, with what they have not yet written.
func (c *Client) Freeze(ctx context.Context, of Domain) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error {
		_, err := l.DomainFsfreeze(of.known(), nil, 0)
		return err
	})
}

// Thaw makes the guest agent thaw what Freeze has frozen.
func (c *Client) Thaw(ctx context.Context, of Domain) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error {
		_, err := l.DomainFsthaw(of.known(), nil, 0)
		return err
	})
}
