package libvirt

import (
	"context"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

var _ hypervisor.Uploader = (*Driver)(nil)

// Upload implements hypervisor.Uploader. It copies the disk, with the data of its image, to a file beside it, and
// uploads that. The file stays until EndUpload, or until the guest is destroyed, so that an interrupted upload
// continues.
func (d *Driver) Upload(ctx context.Context, id string, to hypervisor.Upload) (hypervisor.ImageData, error) {
	none := hypervisor.ImageData{}
	if d.o.Images == nil {
		return none, fault.New(fault.Conflict, "the host has no image service; configure [glance]")
	}
	if err := uuid.Validate(to.Image); err != nil {
		return none, fault.New(fault.Invalid, "%q is not the id of an image", to.Image)
	}
	c, found, there, err := locate(ctx, d, id)
	if err != nil {
		return none, fault.Wrap("", err)
	}
	switch {
	case !there:
		return none, fault.New(fault.Unavailable, "libvirt has no guest %s", id)
	case found.migratesTo() != "" || found.running() && !to.Copy:
		return none, fault.New(fault.Unavailable, "the guest %s runs (domain %s); stop it", id, found.Name)
	}
	if err := found.checkRead(); err != nil {
		return none, err
	}
	disk := found.xml.Disk()
	if disk == "" {
		return none, fault.New(fault.Conflict, "the guest %s has no disk in a file", id)
	}
	var file string
	var fresh bool
	if to.Copy {
		file, fresh, err = copyDisk(ctx, d, c, found, to)
	} else {
		file = d.path(found.UUID.String(), shelvedPrefix+to.Image+".qcow2")
		fresh, err = exportDisk(ctx, d.o.Images, found.guest, disk, file)
	}
	if err != nil {
		return none, err
	}
	return d.o.Images.Upload(ctx, to.Image, file, !fresh)
}
