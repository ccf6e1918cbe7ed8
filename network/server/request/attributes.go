package request

import (
	"slices"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/store"
)

// DraftProject is the draft of a collection whose rules refer to the project only. The project stays in the object.
func DraftProject(c *Call, o *edge.Object) (map[string]any, error) {
	project, err := c.Project(o.Copy())
	return c.Target(project, nil), err
}

// With returns a list of attributes with those that every object has.
func With(attributes ...string) []string {
	return slices.Concat([]string{"id", "name", "description", "project_id", "tenant_id", "created_at", "updated_at",
		"revision_number"}, attributes)
}

// Common returns the attributes that every object has.
func Common(b store.Base) map[string]any {
	return map[string]any{"id": b.ID, "name": b.Name, "description": b.Description, "project_id": b.Project,
		"tenant_id": b.Project, "created_at": FormatTime(b.Created), "updated_at": FormatTime(b.Updated),
		"revision_number": b.Number, "tags": NotNil(b.Tags)}
}

// FormatTime returns a time, given in microseconds since 1970, as the API shows it: in UTC.
func FormatTime(micros int64) string {
	return time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05Z")
}

// NotNil returns a copy of a list that JSON shows as [] if it is empty.
func NotNil(list []string) []string { return append([]string{}, list...) }

// MaxRate is the maximum of a rate: that of a signed 32-bit integer.
const MaxRate = 1<<31 - 1

// LimitList refuses a list of more than limit elements.
func LimitList(o *edge.Object, key string, elements, limit int) {
	if elements > limit {
		o.Invalid(key, "it has %d elements; at most %d are possible", elements, limit)
	}
}
