package resources

import (
	"net/url"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

// segments returns the collection of the segments of all networks.
func (s handlers) segments() request.Collection {
	return request.Collection{One: "segment", Many: "segments", Missing: "SegmentNotFound",
		Attributes: []string{"id", "name", "description", "network_id", "network_type", "physical_network",
			"segmentation_id",
			"revision_number"},
		List: s.listSegments,
		Show: func(c *request.Call, id string) (request.Document, error) {
			all, err := s.listSegments(c, nil)
			for _, d := range all {
				if d.View["id"] == id {
					return d, err
				}
			}
			if err == nil {
				err = fault.New(fault.NotFound, "Segment %s could not be found.", id).WithCode("SegmentNotFound")
			}
			return request.Document{}, err
		},
		Draft: s.draftInNetwork, Create: s.createSegment, Update: s.updateSegment, Remove: s.removeSegment}
}

func (s handlers) listSegments(c *request.Call, q url.Values) ([]request.Document, error) {
	networks, err := operations.List[store.Network](c.R.Context(), s.Ops, store.Filter{IDs: q["network_id"]})
	var list []request.Document
	for _, n := range networks {
		for _, seg := range n.Segments {
			list = append(list, segmentDocument(c, n, seg))
		}
	}
	return list, err
}

// segmentDocument returns the document of a segment.
func segmentDocument(c *request.Call, n store.Network, seg store.Segment) request.Document {
	return request.Document{View: map[string]any{"id": seg.UUID, "name": edge.OrNull(seg.Name),
		"description": seg.Description,
		"network_id":  n.ID, "network_type": seg.Type, "physical_network": edge.OrNull(seg.PhysicalNetwork),
		"segmentation_id": edge.OrNull(seg.ID), "revision_number": seg.Number,
		"created_at": request.FormatTime(n.Created),
		"updated_at": request.FormatTime(n.Updated)}, Target: c.Target(n.Project, nil)}
}

func (s handlers) createSegment(c *request.Call, o *edge.Object) (request.Document, error) {
	network, seg := "", store.Segment{}
	o.Text("network_id", &network, 255)
	o.Text("name", &seg.Name, 255)
	o.Text("description", &seg.Description, 255)
	o.Text("network_type", &seg.Type, 32)
	o.Text("physical_network", &seg.PhysicalNetwork, 64)
	o.Number("segmentation_id", &seg.ID, 1, 1<<32-1)
	o.Ignore("project_id", "tenant_id")
	if err := o.Finish(); err != nil {
		return request.Document{}, err
	}
	seg, err := s.Ops.AddSegment(c.R.Context(), network, seg)
	if err != nil {
		return request.Document{}, err
	}
	return s.segments().Show(c, seg.UUID)
}

func (s handlers) updateSegment(c *request.Call, id string, _ int, o *edge.Object) (request.Document, error) {
	d, err := s.segments().Show(c, id)
	if err != nil {
		return d, err
	}
	if err := s.Ops.UpdateSegment(c.R.Context(), edge.TextOf(d.View["network_id"]), id, func(seg *store.Segment) error {
		o := o.Copy()
		o.Text("name", &seg.Name, 255)
		o.Text("description", &seg.Description, 255)
		return o.Finish()
	}); err != nil {
		return d, err
	}
	return s.segments().Show(c, id)
}

func (s handlers) removeSegment(c *request.Call, id string, _ int) error {
	d, err := s.segments().Show(c, id)
	if err != nil {
		return err
	}
	return s.Ops.DeleteSegment(c.R.Context(), edge.TextOf(d.View["network_id"]), id)
}
