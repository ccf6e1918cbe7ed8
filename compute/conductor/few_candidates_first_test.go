package conductor

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/resource"
)

func withoutDevices(s *lifecycle.Server) {
	s.Requests, s.Ask.Groups = nil, []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}
}

func moved(s *lifecycle.Server) {
	withoutDevices(s)
	s.Move = &lifecycle.Move{}
}

func vcpus(s *lifecycle.Server, n int) {
	s.Ask.Groups = slices.DeleteFunc(s.Ask.Groups, func(g resource.Group) bool { return g.Suffix == "" })
	s.Ask.Groups = append(s.Ask.Groups, resource.Group{Resources: resource.Amounts{"VCPU": n}})
}

// limitRecorder is a Placement that records the limits of the queries for candidates.
type limitRecorder struct {
	Placement
	limits []int
}

func (p *limitRecorder) Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error) {
	p.limits = append(p.limits, ask.Limit)
	return p.Placement.Candidates(ctx, ask)
}

// The scheduler asks for few candidates, and for many only if the filters refuse all of the few. A server with devices
// is planned on the hosts: Placement is asked for the rest of it on one host, and about all hosts only if three fail.
func TestFewCandidatesFirst(t *testing.T) {
	const few, many = schedule.MaxChoices, scheduler.MaxCandidates
	hosts, failed := map[string]int{}, map[string]string{}
	for i := range few + 4 {
		name := fmt.Sprintf("h%02d", i)
		if hosts[name] = 1; i < few {
			failed[name] = "no huge pages"
		}
	}
	c := newCloud(t, hosts)
	for name, test := range map[string]struct {
		change  func(*lifecycle.Server)
		limits  []int
		choices int
	}{
		"accepted":            {withoutDevices, []int{few}, few},
		"the first fail":      {func(s *lifecycle.Server) { withoutDevices(s); s.FailedHosts = failed }, []int{few, many}, 4},
		"nothing is left":     {func(s *lifecycle.Server) { withoutDevices(s); vcpus(s, 65) }, []int{few}, 0},
		"a move to any host":  {moved, []int{many}, few},
		"a device":            {func(*lifecycle.Server) {}, []int{many}, 1},
		"one was taken":       {func(s *lifecycle.Server) { s.Round = 1 }, []int{many, many, many, many}, 4},
		"no room on any host": {func(s *lifecycle.Server) { vcpus(s, 65) }, []int{many, many, many, many}, 0},
		"no free device":      {func(s *lifecycle.Server) { s.Requests[0].Count = 2 }, []int{1}, 0},
		"not in Placement":    {func(s *lifecycle.Server) { s.Ask.Groups = s.Ask.Groups[1:] }, []int{many}, 1},
	} {
		s := server("s")
		test.change(&s)
		p := &limitRecorder{Placement: c.client(nil)}
		event, err := New(c.store, p, Config{}).steps.schedule(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		chosen, _ := event.(lifecycle.Chosen)
		if !slices.Equal(p.limits, test.limits) || len(chosen.Choices) != test.choices {
			t.Errorf("%s: limits %v, %d choices: %+v", name, p.limits, len(chosen.Choices), event)
		}
	}
}
