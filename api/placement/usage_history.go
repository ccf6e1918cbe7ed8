package placement

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// UsageHistory is the answer of GET /berth/v1/usage-history of Berth's Placement: how much there was of each resource
// class and was used, over time. The step n begins n*Step minutes after From.
type UsageHistory struct {
	From    time.Time                     `json:"from"`
	Step    int                           `json:"step_minutes"`
	Classes map[resource.Class][]*StockAt `json:"classes"` // a value for each step; null: no Placement recorded it
}

// StockAt is the stock of a class in the minute of a step in which most of it was used. Free is what remains of Total.
type StockAt struct {
	Total    int `json:"total"` // with allocation ratios
	Reserved int `json:"reserved"`
	Used     int `json:"used"`
}

// HistoryQuery is the query of UsageHistory. Zero fields have the defaults of the service.
type HistoryQuery struct {
	From, To  time.Time
	Step      time.Duration // whole minutes
	Classes   []resource.Class
	Aggregate resource.AggregateID // empty: all providers
}

// UsageHistory returns how classes were used over time. Another Placement than Berth's, and a Berth that keeps no
// history, answer with fault.NotFound.
func (c *Client) UsageHistory(ctx context.Context, query HistoryQuery) (out UsageHistory, err error) {
	values := url.Values{}
	for key, at := range map[string]time.Time{"from": query.From, "to": query.To} {
		if !at.IsZero() {
			values.Set(key, at.UTC().Format(time.RFC3339))
		}
	}
	if query.Step > 0 {
		values.Set("step", strconv.Itoa(int(query.Step.Minutes())))
	}
	if query.Aggregate != "" {
		values.Set("aggregate", string(query.Aggregate))
	}
	for _, class := range query.Classes {
		values.Add("class", string(class))
	}
	_, err = c.REST.Do(ctx, "GET", "/berth/v1/usage-history?"+values.Encode(), nil, &out)
	return out, fault.Wrap("", err)
}
