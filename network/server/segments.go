package server

import (
	"net/url"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
)

// segments returns the collection of the segments of all networks.
func (s handlers) segments() collection {
	return collection{one: "segment", many: "segments", missing: "SegmentNotFound",
		attributes: []string{"id", "name", "description", "network_id", "network_type", "physical_network", "segmentation_id",
			"revision_number"},
		list: s.listSegments,
		show: func(c *call, id string) (document, error) {
			all, err := s.listSegments(c, nil)
			for _, d := range all {
				if d.view["id"] == id {
					return d, err
				}
			}
			if err == nil {
				err = fault.New(fault.NotFound, "Segment %s could not be found.", id).WithCode("SegmentNotFound")
			}
			return document{}, err
		},
		draft: s.draftInNetwork, create: s.createSegment, update: s.updateSegment, remove: s.removeSegment}
}

func (s handlers) listSegments(c *call, q url.Values) ([]document, error) {
	networks, err := operations.List[store.Network](c.R.Context(), s.ops, store.Filter{IDs: q["network_id"]})
	var list []document
	for _, n := range networks {
		for _, seg := range n.Segments {
			list = append(list, c.segment(n, seg))
		}
	}
	return list, err
}

// segment returns the document of a segment.
func (c *call) segment(n store.Network, seg store.Segment) document {
	return document{map[string]any{"id": seg.UUID, "name": edge.OrNull(seg.Name), "description": seg.Description,
		"network_id": n.ID, "network_type": seg.Type, "physical_network": edge.OrNull(seg.PhysicalNetwork),
		"segmentation_id": edge.OrNull(seg.ID), "revision_number": seg.Number, "created_at": apiTime(n.Created),
		"updated_at": apiTime(n.Updated)}, c.target(n.Project, nil)}
}

func (s handlers) createSegment(c *call, o *edge.Object) (document, error) {
	network, seg := "", store.Segment{}
	o.Text("network_id", &network, 255)
	o.Text("name", &seg.Name, 255)
	o.Text("description", &seg.Description, 255)
	o.Text("network_type", &seg.Type, 32)
	o.Text("physical_network", &seg.PhysicalNetwork, 64)
	o.Number("segmentation_id", &seg.ID, 1, 1<<32-1)
	o.Ignore("project_id", "tenant_id")
	if err := o.Finish(); err != nil {
		return document{}, err
	}
	seg, err := s.ops.AddSegment(c.R.Context(), network, seg)
	if err != nil {
		return document{}, err
	}
	return s.segments().show(c, seg.UUID)
}

func (s handlers) updateSegment(c *call, id string, _ int, o *edge.Object) (document, error) {
	d, err := s.segments().show(c, id)
	if err != nil {
		return d, err
	}
	if err := s.ops.UpdateSegment(c.R.Context(), edge.TextOf(d.view["network_id"]), id, func(seg *store.Segment) error {
		o := o.Copy()
		o.Text("name", &seg.Name, 255)
		o.Text("description", &seg.Description, 255)
		return o.Finish()
	}); err != nil {
		return d, err
	}
	return s.segments().show(c, id)
}

func (s handlers) removeSegment(c *call, id string, _ int) error {
	d, err := s.segments().show(c, id)
	if err != nil {
		return err
	}
	return s.ops.DeleteSegment(c.R.Context(), edge.TextOf(d.view["network_id"]), id)
}
