package servers

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// whyRoutes returns the paths of the explanation of a server.
func whyRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/servers/{id}/why": {http.MethodGet: s.OfAnyServer(policies.ExplainServer, compute.Min, s.why)},
	}
}

func (s *Handlers) why(c *request.Call, found lifecycle.Server) error {
	w := explain(found)
	if w.Host != "" && w.Task != "" {
		var err error
		if w.HostConditions, err = s.conditionsOf(c, w.Host); err != nil {
			return err
		}
	}
	if !c.Who.IsAdmin() {
		w = withoutHostData(w)
		w.Fault = found.WithoutHosts(w.Fault)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"why": w})
}

// conditionsOf returns the conditions of a host, such as the progress of the downloads of images.
func (s *Handlers) conditionsOf(c *request.Call, name string) ([]condition.Condition, error) {
	h, err := s.Store.Host(c.R.Context(), name)
	if fault.Is(err, fault.NotFound) {
		return []condition.Condition{}, nil // it was forgotten meanwhile
	}
	return append([]condition.Condition{}, h.Conditions...), err
}

// withoutHostData removes the data about hosts and their devices, which the Compute API hides from users.
func withoutHostData(w compute.Why) compute.Why {
	w.Host, w.Choice, w.Details, w.Move, w.HostConditions = "", nil, "", nil, []condition.Condition{}
	w.Leftovers, w.FilterFailures, w.Search = []compute.WhyResidence{}, []compute.WhyFilterFailure{}, nil
	w.Excluded, w.Devices, w.History = map[string]string{}, []compute.WhyDevice{}, []compute.WhyHistoryEntry{}
	for i := range w.Requests {
		w.Requests[i].Providers = []string{}
	}
	return w
}

// explain returns the decisions in a server's record.
func explain(s lifecycle.Server) compute.Why {
	w := compute.Why{ID: s.ID, Name: s.Name, Status: s.Status(), State: s.Stage(),
		Host: s.Shown().Host, Flavor: s.Flavor.Name, Query: placement.AskQuery(s.Ask).Encode(),
		Rounds: s.Round, Tries: s.Try, Excluded: request.NotNil(s.FailedHosts), Groups: []compute.WhyGroup{},
		Requests: []compute.WhyRequest{}, Devices: []compute.WhyDevice{}, History: []compute.WhyHistoryEntry{}}
	w.HostConditions = []condition.Condition{}
	w.Image, w.Constraints = explainImage(s)
	for _, g := range s.Ask.Groups {
		w.Groups = append(w.Groups, explainGroup(g))
	}
	for _, r := range s.Requests {
		one := compute.WhyRequest{ID: r.ID, Alias: r.Alias, Count: r.Count, Policy: string(r.Policy),
			Providers: request.Texts(r.Providers)}
		if r.Port != nil {
			one.Port = r.Port.ID
		}
		w.Requests = append(w.Requests, one)
	}
	if len(s.Choices) > 0 {
		w.Choice, w.Others = explainChoice(s.Choices[0]), len(s.Choices)-1
	}
	for _, d := range s.Devices {
		w.Devices = append(w.Devices, compute.WhyDevice{RequestID: d.RequestID, Address: d.Address,
			Provider: string(d.Provider)})
	}
	w.Task, w.Leftovers, w.FilterFailures = s.TaskState(), []compute.WhyResidence{}, []compute.WhyFilterFailure{}
	for _, l := range s.Leftovers {
		w.Leftovers = append(w.Leftovers, explainResidence(l))
	}
	if s.PortChange != nil || len(s.PortQueue) > 0 {
		w.PortChange = "attaching"
		if s.PortChange != nil && s.PortChange.Detach != "" {
			w.PortChange = "detaching"
		}
	}
	if s.Move != nil {
		w.Move = &compute.WhyMove{Kind: string(s.Move.Kind), Migration: s.Move.Consumer,
			Source: explainResidence(s.Move.From)}
	}
	for _, f := range s.FilterFailures {
		w.FilterFailures = append(w.FilterFailures, compute.WhyFilterFailure{Filter: string(f.Filter),
			Reason: f.Reason, Count: f.Count, Hosts: f.Hosts, Nearest: f.Nearest})
	}
	if s.Search != nil {
		w.Search = explainSearch(*s.Search)
	}
	if f := cmp.Or(s.Fault, s.Refusal); f != nil {
		w.Fault, w.Details = f.Message, f.Details
	}
	for _, m := range s.History {
		w.History = append(w.History, compute.WhyHistoryEntry{At: m.At, Text: m.Text, Times: m.Times})
	}
	return w
}

func explainSearch(s lifecycle.HostSearch) *compute.WhySearch {
	out := &compute.WhySearch{At: s.At, Funnel: []compute.WhyFunnelRow{}, Nearest: []compute.WhyMiss{}}
	for _, row := range s.Funnel {
		out.Funnel = append(out.Funnel, compute.WhyFunnelRow(row))
	}
	for _, m := range s.Nearest {
		miss := compute.WhyMiss{Host: m.Host, Deficits: []compute.WhyDeficit{}}
		for _, d := range m.Deficits {
			miss.Deficits = append(miss.Deficits, compute.WhyDeficit{Class: string(d.Class), Cause: d.Cause, Asks: d.Asks,
				Free: d.Free, Of: d.Of, Text: d.Text})
		}
		out.Nearest = append(out.Nearest, miss)
	}
	return out
}

// explainImage returns the image of a server, nil without one, and the constraints of its flavor and image with their
// sources.
func explainImage(s lifecycle.Server) (of *compute.WhyImage, words []compute.WhyConstraint) {
	words = []compute.WhyConstraint{}
	for _, c := range flavor.Constraints(s.Flavor, s.SourceImage()) {
		words = append(words, compute.WhyConstraint{Key: c.Key, Value: c.Value, Sources: c.Sources})
	}
	if s.Image == "" {
		return nil, words
	}
	i := s.SourceImage()
	return &compute.WhyImage{ID: s.Image, Name: i.Name, Properties: request.NotNil(i.Properties)}, words
}

func explainResidence(l lifecycle.Residence) compute.WhyResidence {
	out := compute.WhyResidence{Consumer: l.Consumer, Host: l.Host, Devices: []string{}}
	for _, d := range l.Devices {
		out.Devices = append(out.Devices, d.Address)
	}
	return out
}

func explainGroup(g resource.Group) compute.WhyGroup {
	out := compute.WhyGroup{Suffix: g.Suffix, Resources: g.Resources.ByName(), Required: []string{},
		Forbidden: request.Texts(g.Forbidden)}
	for _, any := range g.Required {
		text := strings.Join(request.Texts(any), ",")
		if len(any) > 1 {
			text = "in:" + text
		}
		out.Required = append(out.Required, text)
	}
	return out
}

func explainChoice(c schedule.Choice) *compute.WhyChoice {
	out := &compute.WhyChoice{Host: c.Host, Root: string(c.Root), Allocation: c.Allocation.ByName(),
		Mappings: map[string][]string{}}
	for suffix, providers := range c.Mappings {
		out.Mappings[suffix] = request.Texts(providers)
	}
	return out
}
