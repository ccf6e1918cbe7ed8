package compute

import (
	"context"
	"net/http"
)

// Aggregate is a host aggregate. Nil pointers are null where the API has null.
type Aggregate struct {
	ID        int64   `json:"id"`
	Name      string  `json:"name"`
	Zone      *string `json:"availability_zone"`
	Created   string  `json:"created_at"` // 2006-01-02T15:04:05.000000
	Updated   *string `json:"updated_at"`
	Deleted   bool    `json:"deleted"` // false: a deleted aggregate is not kept
	DeletedAt *string `json:"deleted_at"`
	*AggregateContent
	UUID string `json:"uuid,omitempty"` // 2.41
}

// AggregateContent is what the response that creates an aggregate leaves out.
type AggregateContent struct {
	Hosts    []string          `json:"hosts"`
	Metadata map[string]string `json:"metadata"`
}

// Aggregates lists the host aggregates.
func (c *Client) Aggregates(ctx context.Context) ([]Aggregate, error) {
	var out struct {
		Aggregates []Aggregate `json:"aggregates"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/v2.1/os-aggregates", nil, &out)
	return out.Aggregates, err
}
