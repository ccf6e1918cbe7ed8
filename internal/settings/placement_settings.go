package settings

import (
	"log/slog"
	"time"

	"github.com/openberth/berth/config"
)

// maxCount bounds max_allocation_candidates and the retry count; larger values are typing errors.
const maxCount = 1 << 30

// defaultIncompleteID is the default of both incomplete_consumer_… options, as in OpenStack's Placement.
const defaultIncompleteID = "00000000-0000-0000-0000-000000000000"

// placementOptions are the rows of Placement's options.
func (s *Settings) placementOptions() config.Options {
	p := &s.Placement
	return config.Options{
		config.Flag("placement", "randomize_allocation_candidates", &p.Randomize, false),
		config.Text("placement", "allocation_candidates_generation_strategy", &s.raw.strategy, "depth-first", "depth-first",
			"breadth-first"),
		config.Number("placement", "max_allocation_candidates", &p.MaxCandidates, -1, -1, maxCount),
		config.Number("placement", "allocation_conflict_retry_count", &p.ClaimRetries, 10, 0, maxCount),
		config.Text("placement", "incomplete_consumer_project_id", &p.IncompleteProject, defaultIncompleteID),
		config.Text("placement", "incomplete_consumer_user_id", &p.IncompleteUser, defaultIncompleteID),
		config.Fractions("berth", "index_refresh_interval", &p.IndexRefresh, 1, 0.05, 3600),
		config.Fractions("berth", "index_max_age", &p.IndexMaxAge, -1, 0, 86400),
		config.Flag("berth", "usage_history", &p.UsageHistory, true),
	}
}

// defaultIndexAge is the default of index_max_age, in addition to ten refresh intervals. /healthz reports an older
// index.
const defaultIndexAge = 30 * time.Second

// checkPlacement completes the options of Placement.
func (s *Settings) checkPlacement(cfg *config.Config, _ *slog.Logger) error {
	p := &s.Placement
	p.BreadthFirst = s.raw.strategy == "breadth-first"
	if p.IndexMaxAge < 0 {
		p.IndexMaxAge = defaultIndexAge + 10*p.IndexRefresh
	}
	if e, ok := cfg.Get("berth", "index_max_age"); ok && p.IndexMaxAge > 0 && p.IndexMaxAge < 2*p.IndexRefresh {
		return e.Fault("less than two times index_refresh_interval (%s); write at least two times that, "+
			"or 0 for any age", p.IndexRefresh)
	}
	return nil
}

// CandidateLimit returns max_allocation_candidates with the meaning of OpenStack's Placement: 0 allows one candidate.
func (p PlacementSettings) CandidateLimit() int {
	if p.MaxCandidates == 0 {
		return 1
	}
	return p.MaxCandidates
}
