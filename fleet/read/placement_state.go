package read

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/openberth/berth/api/eventstream"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// errWhole ends the stream of events when the whole state has been read.
var errWhole = errors.New("the whole state was read")

// wholeTime is the time limit for reading the whole state.
const wholeTime = 5 * time.Minute

// whole reads the providers with one request, from the stream of events of Berth's Placement, which begins with the
// whole state. It returns fault.NotFound for another Placement. The providers have no generations.
func (r *reader) whole(ctx context.Context) error {
	client := *r.Placement.REST
	web := http.Client{}
	if client.HTTP != nil {
		web = *client.HTTP
	}
	web.Timeout = 0 // the state of a large cloud takes longer than one request
	client.HTTP = &web
	ctx, cancel := context.WithTimeout(ctx, wholeTime)
	defer cancel()
	s := wholeState{at: map[provider.ID]*fleet.Provider{}}
	_, err := eventstream.Read(ctx, &client, url.Values{"state": {"true"}}, "", s.add)
	switch {
	case err == nil:
		return fault.New(fault.Unavailable, "the stream of events ended before the whole state was read")
	case !errors.Is(err, errWhole):
		return err
	}
	for _, p := range s.at {
		slices.Sort(p.Traits)
		r.out.Providers = append(r.out.Providers, *p)
	}
	slices.SortFunc(r.out.Providers, func(a, b fleet.Provider) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return nil
}

// wholeState collects the objects of the whole state, in any order.
type wholeState struct {
	at map[provider.ID]*fleet.Provider
}

// of returns a provider, which a later object may describe.
func (s wholeState) of(id provider.ID) *fleet.Provider {
	if s.at[id] == nil {
		s.at[id] = &fleet.Provider{Provider: provider.Provider{ID: id,
			Inventories: map[resource.Class]resource.Inventory{}}}
	}
	return s.at[id]
}

// stateObject is a provider, an inventory or an allocation.
type stateObject struct {
	ID         provider.ID            `json:"uuid"`
	Name       string                 `json:"name"`
	Parent     provider.ID            `json:"parent_provider_uuid"`
	Root       provider.ID            `json:"root_provider_uuid"`
	Traits     []resource.Trait       `json:"traits"`
	Aggregates []resource.AggregateID `json:"aggregates"`

	Provider  provider.ID         `json:"provider"`
	Class     resource.Class      `json:"resource_class"`
	Total     int                 `json:"total"`
	Reserved  int                 `json:"reserved"`
	MinUnit   int                 `json:"min_unit"`
	MaxUnit   int                 `json:"max_unit"`
	StepSize  int                 `json:"step_size"`
	Ratio     float64             `json:"allocation_ratio"`
	Consumer  resource.ConsumerID `json:"consumer"`
	Resources resource.Amounts    `json:"resources"`
}

// add adds the object of an event. It returns errWhole for the end of the state.
func (s wholeState) add(e eventstream.Event) error {
	switch e.Action {
	case eventstream.Synced:
		return errWhole
	case eventstream.Reset:
		clear(s.at)
		return nil
	}
	var o stateObject
	if err := json.Unmarshal(e.Object, &o); err != nil {
		return fault.New(fault.Internal, "an event does not match its API: %w", err)
	}
	switch e.Kind {
	case "provider":
		p := s.of(o.ID)
		p.Name, p.Parent, p.Root, p.Traits, p.Aggregates = o.Name, o.Parent, o.Root, o.Traits, o.Aggregates
	case "inventory":
		s.of(o.Provider).Inventories[o.Class] = resource.Inventory{Total: o.Total, Reserved: o.Reserved,
			MinUnit: o.MinUnit, MaxUnit: o.MaxUnit, StepSize: o.StepSize, AllocationRatio: o.Ratio}
	case "allocation":
		p := s.of(o.Provider)
		if p.Held == nil {
			p.Held = map[resource.ConsumerID]resource.Amounts{}
		}
		p.Held[o.Consumer] = o.Resources
	}
	return nil
}
