package server

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/history"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

// The limits of the usage history.
const (
	maxHistoryClasses = 1000             // that are recorded: the first ones by name
	historyAggregates = 50               // that are recorded: those with most trees
	maxHistorySteps   = 1500             // of an answer: a day of minutes fits
	maxHistoryValues  = 200_000          // of an answer
	historyTimeout    = 20 * time.Second // of one record
	minutesOfMonth    = history.Hours * history.Minutes
)

// keepHistory records what is used at the beginning of each minute, until ctx ends.
func (s *Server) keepHistory(ctx context.Context) {
	if !s.opts.KeepHistory {
		return
	}
	failing, limited := false, false
	for {
		now := s.service.Now()
		if backoff.Sleep(ctx, now.Truncate(time.Minute).Add(time.Minute).Sub(now)) != nil {
			return
		}
		dropped, err := s.recordUsage(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			s.service.Log.Warn("usage of this minute not recorded, will try the next minute", "error", err)
		}
		failing = err != nil
		if dropped > 0 && !limited {
			s.service.Log.Warn("usage history has too many resource classes: the last ones by name are not recorded",
				"limit", maxHistoryClasses, "not_recorded", dropped)
			limited = true
		}
	}
}

// recordUsage records what the index has in the present minute, unless another process has done so, or polls of
// the database have failed for more than a minute. dropped is how many classes are not recorded.
func (s *Server) recordUsage(ctx context.Context) (dropped int, err error) {
	now := s.service.Now()
	if now.Sub(*s.verifiedAt.Load()) > time.Minute+2*s.opts.RefreshInterval {
		return 0, nil // the failed polls are logged
	}
	all, stocks := s.service.Index.Snapshot().Stocks(historyAggregates)
	stocks[store.WholeCloud] = all
	for _, one := range stocks {
		if len(one) > maxHistoryClasses {
			dropped = max(dropped, len(one)-maxHistoryClasses)
			for _, class := range slices.Sorted(maps.Keys(one))[maxHistoryClasses:] {
				delete(one, class)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	_, err = s.service.Store.RecordUsage(ctx, minuteOf(now), stocks)
	return dropped, err
}

// minuteOf returns the number of a minute since 1970.
func minuteOf(at time.Time) int64 { return at.Unix() / 60 }

// usageHistory handles GET /berth/v1/usage-history: how the resource classes were used over time.
func (s *Server) usageHistory(c *request.Call) error {
	q, err := c.Query()
	if err != nil {
		return err
	}
	asked, aggregate, err := historyQuery(q, c.Service.Now())
	if err != nil {
		return err
	}
	if !s.opts.KeepHistory {
		return fault.New(fault.NotFound,
			"This Placement keeps no usage history: [berth] usage_history is false, or its "+
				"tables could not be created, which the log reports at the start")
	}
	first, last := asked.Hours()
	rows, err := c.Service.Store.UsageHistory(c.Context(), aggregate, first, last)
	if err != nil {
		return err
	}
	found, err := asked.Sample(rows)
	if err != nil {
		return err
	}
	if len(found)*asked.Steps > maxHistoryValues {
		return fault.New(fault.Invalid,
			"The answer would have %d values, more than %d: name some classes with class, or "+
				"write a larger step", len(found)*asked.Steps, maxHistoryValues)
	}
	for _, class := range asked.Classes {
		if _, err := c.Service.Store.Class(c.Context(), class); err != nil && found[class] == nil {
			return fault.New(fault.Invalid, "Invalid query string parameters: class: %w", err)
		}
	}
	c.SetModified(time.Time{})
	return c.SendJSON(http.StatusOK, api.UsageHistory{From: time.Unix(asked.From*60, 0).UTC(), Step: asked.Step,
		Classes: historyDoc(found)})
}

func historyDoc(found map[resource.Class][]*index.Stock) map[resource.Class][]*api.StockAt {
	out := make(map[resource.Class][]*api.StockAt, len(found))
	for class, list := range found {
		out[class] = make([]*api.StockAt, len(list))
		for i, stock := range list {
			out[class][i] = (*api.StockAt)(stock)
		}
	}
	return out
}

// historyQuery parses the query of the usage history. The default is the last day, with the smallest step. Steps begin
// at multiples of their length, so a later question has the same ones.
func historyQuery(q url.Values, now time.Time) (asked history.Range, aggregate resource.AggregateID, err error) {
	from, to := time.Time{}, now
	for key, values := range q {
		switch last := values[len(values)-1]; key {
		case "from":
			from, err = historyTime(key, last)
		case "to":
			to, err = historyTime(key, last)
		case "step":
			if asked.Step, err = strconv.Atoi(last); err != nil || asked.Step < 1 || asked.Step > minutesOfMonth {
				err = fault.New(fault.Invalid,
					"Invalid query string parameters: step=%q is not a number of minutes from 1 to %d",
					last, minutesOfMonth)
			}
		case "aggregate":
			if _, err = uuid.Parse(last); err != nil {
				err = fault.New(fault.Invalid, "Invalid query string parameters: aggregate=%q is not a UUID", last)
			}
			aggregate = resource.AggregateID(last)
		case "class":
			for _, name := range values {
				asked.Classes = append(asked.Classes, resource.Class(name))
			}
			if len(asked.Classes) > 100 {
				err = fault.New(fault.Invalid, "Invalid query string parameters: at most 100 classes can be named")
			}
		default:
			err = fault.New(fault.Invalid,
				"Invalid query string parameters: there is no parameter %q; aggregate, class, "+
					"from, to and step are possible", key)
		}
		if err != nil {
			return asked, "", err
		}
	}
	if from.IsZero() {
		from = to.Add(-24 * time.Hour)
	}
	minutes := minuteOf(to) - minuteOf(from)
	if minutes < 1 {
		return asked, "", fault.New(fault.Invalid, "Invalid query string parameters: from must be at least a minute "+
			"before to, which is now by default")
	}
	least := history.MinStep(minutes, maxHistorySteps)
	if asked.Step == 0 {
		asked.Step = least
	}
	if asked.Step < least {
		return asked, "",
			fault.New(fault.Invalid, "Invalid query string parameters: step=%d gives more than %d steps; "+
				"write at least step=%d, or a shorter time", asked.Step, maxHistorySteps, least)
	}
	step := int64(asked.Step)
	asked.From = minuteOf(from) / step * step
	asked.Steps = int((minuteOf(to) - asked.From + step - 1) / step)
	return asked, aggregate, nil
}

// historyTime parses a time of a query.
func historyTime(key, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Unix() < 0 {
		return at, fault.New(fault.Invalid, "Invalid query string parameters: %s=%q is not a time such as "+
			"2026-11-27T12:00:00Z, after 1970", key, text)
	}
	return at, nil
}
