package console

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
)

// historyTime is how long the page of classes waits for the history.
const historyTime = 10 * time.Second

// spans are the times that the history can show, with steps of a few pixels.
var spans = []struct {
	Name   string
	length time.Duration
	step   time.Duration
}{{"day", 24 * time.Hour, 10 * time.Minute}, {"week", 7 * 24 * time.Hour, time.Hour},
	{"month", 31 * 24 * time.Hour, 4 * time.Hour}}

// historyContent is how the classes were used over time.
type historyContent struct {
	Span     string // day, week or month
	Spans    []historySpan
	From, To string // for people, in UTC
	Curves   []view.Curve
	Step     string
	Why      string // there are no curves
}

// historySpan is a span that can be chosen, and the address of its page.
type historySpan struct{ Name, Href string }

// readHistory reads how classes were used in the last span: a day without a name. shown is what the page shows of the
// present.
func readHistory(r *http.Request, client *placement.Client, shown *view.Classes) (*historyContent, error) {
	out, at := &historyContent{}, -1
	name := r.URL.Query().Get("over")
	for i, s := range spans {
		q := url.Values{"over": {s.Name}}
		if shown.Aggregate != "" {
			q.Set("aggregate", shown.Aggregate)
		}
		out.Spans = append(out.Spans, historySpan{s.Name, "/classes?" + q.Encode() + "#over"})
		if s.Name == name || name == "" && i == 0 {
			at = i
		}
	}
	if at < 0 {
		return nil, fault.New(fault.Invalid, "over=%s is not possible; write over=day, over=week or over=month", name)
	}
	span := spans[at]
	out.Span, out.Step = span.Name, view.Plural(int(span.step.Minutes()), "minute")
	if span.step >= time.Hour {
		out.Step = view.Plural(int(span.step.Hours()), "hour")
	}
	if shown.Aggregate != "" && shown.AggregateID == "" {
		out.Why = "The history of this aggregate is not known: compute does not report its id, or several have its name."
		return out, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTime)
	defer cancel()
	now := time.Now()
	found, err := client.UsageHistory(ctx, placement.HistoryQuery{From: now.Add(-span.length), To: now, Step: span.step,
		Aggregate: shown.AggregateID})
	switch {
	case fault.Is(err, fault.NotFound):
		out.Why = "Placement keeps no usage history. Berth's Placement records it with [berth] usage_history = true."
	case err != nil:
		out.Why = "The usage history could not be read: " + fault.TextOf(err)
	default:
		out.Curves = view.Curves(found, "last "+span.Name)
		if len(out.Curves) == 0 {
			out.Why = "Nothing was recorded in the last " + span.Name + ". Placement records each minute while it runs, of " +
				"all hosts and of the 50 aggregates with most hosts."
		}
		const form = "2 Jan 15:04"
		out.From, out.To = found.From.UTC().Format(form), now.UTC().Format(form)
	}
	return out, nil
}
