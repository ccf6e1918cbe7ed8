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

// limitRecorder is a Placement that records the limits of the queries for candidates.
type limitRecorder struct {
	Placement
	limits []int
}

func (p *limitRecorder) Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error) {
	p.limits = append(p.limits, ask.Limit)
	return p.Placement.Candidates(ctx, ask)
}

// The scheduler asks for few candidates, and for many only if the filters refuse all of the few, or if most candidates
// may lack the devices.
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
		"accepted":            {func(*lifecycle.Server) {}, []int{few}, few},
		"the first fail":      {func(s *lifecycle.Server) { s.FailedHosts = failed }, []int{few, many}, 4},
		"nothing is left":     {func(s *lifecycle.Server) { s.Ask.Groups[0].Resources[class] = 2 }, []int{few}, 0},
		"not in Placement":    {func(s *lifecycle.Server) { s.Ask.Groups[0].Suffix = "" }, []int{many}, few},
		"a move to some host": {func(s *lifecycle.Server) { s.Move = &lifecycle.Move{} }, []int{many}, few},
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
