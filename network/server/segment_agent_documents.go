package server

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
)

// segments returns the collection of the segments of all networks.
func (s *server) segments() collection {
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
				err = fault.New(fault.NotFound, "", "Segment %s could not be found.", id).WithCode("SegmentNotFound")
			}
			return document{}, err
		},
		draft: s.draftInNetwork, create: s.createSegment, update: s.updateSegment, remove: s.removeSegment}
}

func (s *server) listSegments(c *call, q url.Values) ([]document, error) {
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
	return document{map[string]any{"id": seg.UUID, "name": orNull(seg.Name), "description": seg.Description,
		"network_id": n.ID, "network_type": seg.Type, "physical_network": orNull(seg.PhysicalNetwork),
		"segmentation_id": orNullInt(seg.ID), "revision_number": seg.Number, "created_at": apiTime(n.Created),
		"updated_at": apiTime(n.Updated)}, c.target(n.Project, nil)}
}

func (s *server) createSegment(c *call, o *object) (document, error) {
	network, seg := "", store.Segment{}
	o.text("network_id", &network, 255)
	o.text("name", &seg.Name, 255)
	o.text("description", &seg.Description, 255)
	o.text("network_type", &seg.Type, 32)
	o.text("physical_network", &seg.PhysicalNetwork, 64)
	o.number("segmentation_id", &seg.ID, 1, 1<<32-1)
	o.ignore("project_id", "tenant_id")
	if err := o.finish("POST"); err != nil {
		return document{}, err
	}
	seg, err := s.ops.AddSegment(c.R.Context(), network, seg)
	if err != nil {
		return document{}, err
	}
	return s.segments().show(c, seg.UUID)
}

func (s *server) updateSegment(c *call, id string, _ int, o *object) (document, error) {
	d, err := s.segments().show(c, id)
	if err != nil {
		return d, err
	}
	if err := s.ops.UpdateSegment(c.R.Context(), textOf(d.view["network_id"]), id, func(seg *store.Segment) error {
		o := o.copy()
		o.text("name", &seg.Name, 255)
		o.text("description", &seg.Description, 255)
		return o.finish("PUT")
	}); err != nil {
		return d, err
	}
	return s.segments().show(c, id)
}

func (s *server) removeSegment(c *call, id string, _ int) error {
	d, err := s.segments().show(c, id)
	if err != nil {
		return err
	}
	return s.ops.DeleteSegment(c.R.Context(), textOf(d.view["network_id"]), id)
}

// agents returns the collection of agents.
func (s *server) agents() collection {
	return collection{one: "agent", many: "agents", missing: "AgentNotFound",
		attributes: []string{"id", "agent_type", "binary", "host", "admin_state_up", "alive", "topic", "description",
			"availability_zone"},
		list: func(c *call, q url.Values) ([]document, error) {
			found, err := operations.List[store.Agent](c.R.Context(), s.ops, store.Filter{IDs: q["id"], Hosts: q["host"]})
			var list []document
			for _, a := range found {
				list = append(list, c.agent(a))
			}
			return list, err
		},
		show: func(c *call, id string) (document, error) {
			a, err := operations.Get[store.Agent](c.R.Context(), s.ops, id)
			return c.agent(a), err
		},
		update: func(c *call, id string, _ int, o *object) (document, error) {
			a, err := s.onAgents().UpdateAgent(c.R.Context(), id, func(a *store.Agent) error {
				o := o.copy()
				o.flag("admin_state_up", &a.AdminUp)
				o.text("description", &a.Description, 255)
				return o.finish("PUT")
			})
			return c.agent(a), err
		},
		remove: func(c *call, id string, _ int) error { return s.onAgents().DeleteAgent(c.R.Context(), id) }}
}

// agent returns the document of an agent.
func (c *call) agent(a store.Agent) document {
	configurations := map[string]any{}
	if json.Unmarshal([]byte(a.Conf), &configurations) != nil || configurations == nil {
		configurations = map[string]any{}
	}
	var synced any
	if a.Synced != nil {
		synced = *a.Synced
	}
	alive := c.srv.Now().Sub(time.UnixMicro(a.Heartbeat)) < operations.AgentDownTime
	moment := func(micros int64) string { return time.UnixMicro(micros).UTC().Format("2006-01-02 15:04:05") }
	return document{map[string]any{"id": a.ID, "agent_type": a.Type, "binary": a.Name, "host": a.Host, "topic": "N/A",
		"admin_state_up": a.AdminUp, "alive": alive, "description": orNull(a.Description), "configurations": configurations,
		"resources_synced": synced, "availability_zone": nil, "resource_versions": map[string]any{},
		"created_at": moment(a.Created), "started_at": moment(a.Started), "heartbeat_timestamp": moment(a.Heartbeat)},
		c.target("", nil)}
}
