package app

import (
	"testing"

	"github.com/openberth/berth/api/compute"
)

// Placement reports its limit of candidates to compute: the headroom is exact without a limit, and a lower bound if the
// only host has as many candidates as the limit.
func TestHeadroomWithPlacementsLimit(t *testing.T) {
	t.Parallel()
	for conf, exact := range map[string]bool{"": true, "[placement]\nmax_allocation_candidates = 2\n": true,
		"[placement]\nmax_allocation_candidates = 1\n": false} {
		l := newLab(t)
		l.up(conf)
		f, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64})
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.cloud.HostClient().Headroom(t.Context(), f.ID, nil)
		if err != nil || got.Fits == 0 || got.Exact != exact {
			t.Errorf("%q: %+v %v", conf, got, err)
		}
		l.down()
	}
}
