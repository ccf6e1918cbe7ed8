package server

import (
	"slices"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/store"
)

// draftProject is the draft of a collection whose rules refer to the project only. The project stays in the object.
func draftProject(c *call, o *edge.Object) (map[string]any, error) {
	project, err := c.project(o.Copy())
	return c.target(project, nil), err
}

// with returns a list of attributes with those that every object has.
func with(attributes ...string) []string {
	return slices.Concat([]string{"id", "name", "description", "project_id", "tenant_id", "created_at", "updated_at",
		"revision_number"}, attributes)
}

// common returns the attributes that every object has.
func common(b store.Base) map[string]any {
	return map[string]any{"id": b.ID, "name": b.Name, "description": b.Description, "project_id": b.Project,
		"tenant_id": b.Project, "created_at": apiTime(b.Created), "updated_at": apiTime(b.Updated),
		"revision_number": b.Number, "tags": notNil(b.Tags)}
}

func apiTime(micros int64) string { return time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05Z") }

func notNil(list []string) []string { return append([]string{}, list...) }

// maxRate is the maximum of a rate: that of a signed 32-bit integer.
const maxRate = 1<<31 - 1

// limitList refuses a list of more than limit elements.
func limitList(o *edge.Object, key string, elements, limit int) {
	if elements > limit {
		o.Invalid(key, "it has %d elements; at most %d are possible", elements, limit)
	}
}
