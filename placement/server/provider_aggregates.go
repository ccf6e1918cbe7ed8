package server

import (
	"net/http"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/resource"
)

func (c *call) sendAggregates(generation int, all []resource.AggregateID) error {
	d := object{"aggregates": append([]resource.AggregateID{}, all...)}
	if c.version >= sinceAggregateGuard {
		d["resource_provider_generation"] = generation
	}
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusOK, d)
}

func (c *call) listAggregates() error {
	all, err := c.server.store.Aggregates(c.Context(), c.provider())
	if err != nil {
		return err
	}
	return c.sendAggregates(all.Generation, all.Aggregates)
}

func (c *call) replaceAggregates() error {
	var in api.AggregatesDoc
	var generation *int
	var err error
	if c.version >= sinceAggregateGuard {
		generation = &in.Generation
		err = c.readExisting(api.BodyAggregates, &in)
	} else {
		err = c.readExisting(api.BodyAggregates, &in.Aggregates)
	}
	if err != nil {
		return err
	}
	change, err := c.server.store.ReplaceAggregates(c.Context(), c.provider(), generation, in.Aggregates)
	if err != nil {
		return err
	}
	c.refresh(change)
	return c.sendAggregates(change.Generation, in.Aggregates)
}
