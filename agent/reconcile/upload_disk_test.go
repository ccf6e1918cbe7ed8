package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

func isUpload(e state.Effect) bool { _, is := e.(state.Upload); return is }

// assignUpload delivers the assignment of a server whose disk must be uploaded as an image.
func (d *driver) assignUpload(revision int64, id, image string) {
	d.t.Helper()
	d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
		Revision: revision},
		Servers: []host.Server{{ID: id, Name: id, VCPUs: 1, MemoryMB: 64, Power: host.Off,
			ShelvedDisk: host.ShelvedDisk{UploadTo: image}}}}})
}

// endUpload ends the pending upload with a result.
func (d *driver) endUpload(data hypervisor.ImageData, err error) {
	d.t.Helper()
	i := slices.IndexFunc(d.pending, isUpload)
	if i < 0 {
		d.t.Fatalf("no upload is pending: %+v", d.pending)
	}
	d.pending = slices.Delete(d.pending, i, i+1)
	d.deliver(state.WorkDone{Work: "s1", Image: data, Err: err})
	d.settle(isUpload)
}

// The disk of a guest is uploaded when the guest has stopped. The reason of a failure is reported, and the agent tries
// again; the result is reported, and the guest stays.
func TestDiskIsUploadedAfterTheGuestHasStopped(t *testing.T) {
	d := newDriverWith(t, hypervisor.Guest{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64})
	d.assignUpload(1, "s1", "i1")
	d.settle(isUpload)
	if !d.guests["s1"].Stopped || !slices.ContainsFunc(d.pending, isUpload) {
		t.Fatalf("guest %+v, pending %+v", d.guests["s1"], d.pending)
	}
	if d.state.works.Building != 0 {
		t.Errorf("an upload counts as %d builds", d.state.works.Building)
	}
	d.endUpload(hypervisor.ImageData{}, fault.New(fault.Unavailable, "the image service does not answer"))
	last := d.reports[len(d.reports)-1]
	if last.Phase != host.Stopped || last.Upload == nil || last.Upload.Final || last.Upload.Image != "i1" ||
		last.Upload.Error != "the image service does not answer" {
		t.Errorf("reported %+v %+v", last, last.Upload)
	}
	if slices.ContainsFunc(d.pending, isUpload) {
		t.Errorf("the upload is repeated without a wait")
	}
	d.now = d.now.Add(10 * time.Minute)
	d.deliver(state.Tick{})
	d.settle(isUpload)
	d.endUpload(hypervisor.ImageData{Bytes: 7, SHA512: "sum"}, nil)
	last = d.reports[len(d.reports)-1]
	if want := (host.DiskUpload{Image: "i1", Bytes: 7, SHA512: "sum"}); last.Upload == nil || *last.Upload != want {
		t.Errorf("reported %+v", last.Upload)
	}
	n := len(d.reports)
	d.deliver(state.Tick{})
	d.settle(isUpload)
	if _, there := d.guests["s1"]; !there || len(d.reports) != n || slices.ContainsFunc(d.pending, isUpload) {
		t.Errorf("guests %v, %d reports more, pending %+v", d.guests, len(d.reports)-n, d.pending)
	}
	if d.state.works.Building != 0 {
		t.Errorf("%d builds", d.state.works.Building)
	}
}

// A failure that is final is reported as such, and not repeated.
func TestFinalUploadFailure(t *testing.T) {
	d := newDriverWith(t, hypervisor.Guest{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64, Stopped: true})
	d.assignUpload(1, "s1", "i1")
	d.settle(isUpload)
	d.endUpload(hypervisor.ImageData{}, fault.New(fault.Conflict, "the host's disk is full"))
	if last := d.reports[len(d.reports)-1]; last.Upload == nil || !last.Upload.Final {
		t.Errorf("reported %+v", last.Upload)
	}
	d.now = d.now.Add(10 * time.Minute)
	d.deliver(state.Tick{})
	d.settle(isUpload)
	if slices.ContainsFunc(d.pending, isUpload) {
		t.Error("the upload is repeated")
	}
}

// A guest that must stop is stopped before what is left of the upload of a copy of its disk is ended, which waits for
// the storage.
func TestGuestIsStoppedBeforeAnUploadIsEnded(t *testing.T) {
	d := newDriverWith(t, hypervisor.Guest{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64,
		Observed: hypervisor.Observed{Uploads: "i1"}})
	d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
		Revision: 1}, Servers: []host.Server{{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64, Power: host.Off}}}})
	isEnd := func(e state.Effect) bool { _, is := e.(state.EndUpload); return is }
	d.settle(isEnd)
	if !d.guests["s1"].Stopped || !slices.ContainsFunc(d.pending, isEnd) {
		t.Errorf("guest %+v, pending %+v", d.guests["s1"], d.pending)
	}
}
