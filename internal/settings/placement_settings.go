package settings

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/placement/policies"
	"github.com/openberth/berth/policy"
)

// knownPlacement lists the options of PlacementSettings.
func knownPlacement() []config.Name {
	names := append(identity.KnownKeystone(), policy.Known()...)
	names = append(names, config.Name{Group: "berth", Option: "index_refresh_interval"},
		config.Name{Group: "oslo_middleware", Option: "enable_proxy_headers_parsing"})
	for _, option := range []string{"randomize_allocation_candidates", "allocation_candidates_generation_strategy",
		"max_allocation_candidates",
		"allocation_conflict_retry_count", "incomplete_consumer_project_id", "incomplete_consumer_user_id"} {
		names = append(names, config.Name{Group: "placement", Option: option})
	}
	for _, option := range []string{"allowed_origin", "allow_credentials", "expose_headers", "max_age", "allow_methods",
		"allow_headers"} {
		names = append(names, config.Name{Group: "cors", Option: option})
	}
	return names
}

// maxCount bounds max_allocation_candidates and the retry count; larger values are typing errors.
const maxCount = 1 << 30

// defaultIncompleteID is the default of both incomplete_consumer_… options, as in OpenStack's Placement.
const defaultIncompleteID = "00000000-0000-0000-0000-000000000000"

func (s *Settings) readPlacement(cfg *config.Config, log *slog.Logger) (err error) {
	p := &s.Placement
	if p.Randomize, err = cfg.Bool("placement", "randomize_allocation_candidates", false); err != nil {
		return err
	}
	order, err := cfg.String("placement", "allocation_candidates_generation_strategy", "depth-first",
		[]string{"depth-first", "breadth-first"})
	if err != nil {
		return err
	}
	p.BreadthFirst = order == "breadth-first"
	if p.MaxCandidates, err = cfg.Int("placement", "max_allocation_candidates", -1, -1, maxCount); err != nil {
		return err
	}
	if p.ClaimRetries, err = cfg.Int("placement", "allocation_conflict_retry_count", 10, 0, maxCount); err != nil {
		return err
	}
	if p.IncompleteProject, err = cfg.String("placement", "incomplete_consumer_project_id", defaultIncompleteID,
		nil); err != nil {
		return err
	}
	if p.IncompleteUser, err = cfg.String("placement", "incomplete_consumer_user_id", defaultIncompleteID,
		nil); err != nil {
		return err
	}
	if err := p.readIndex(cfg); err != nil {
		return err
	}
	if p.ProxyHeaders, err = cfg.Bool("oslo_middleware", "enable_proxy_headers_parsing", false); err != nil {
		return err
	}
	if err := s.readCORS(cfg); err != nil {
		return err
	}
	dirs := []string{}
	for _, file := range s.files {
		dirs = append(dirs, filepath.Dir(file))
	}
	// With noauth2 callers are not authenticated, so the policy of an OpenStack Placement on this machine does not apply.
	if s.Auth != NoAuth2 {
		p.Policy, err = policy.Load(cfg, policies.Rules(), policyNames(), append(slices.Clone(dirs), "/etc/placement")...)
	}
	if s.Auth == "" && errors.Is(err, fs.ErrPermission) { // the agent and a cloud without Keystone need no policy
		p.policyErr, p.Policy = err, nil
	} else if err != nil {
		return err
	}
	if p.Policy == nil {
		if p.Policy, err = policy.Load(cfg, policies.Rules(), policyNames(), dirs...); err != nil {
			return err
		}
	}
	for _, warning := range p.Policy.Warnings() {
		log.Warn(warning)
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

// CheckPolicy returns why the policy for authenticated callers could not be read.
func (p PlacementSettings) CheckPolicy() error { return p.policyErr }
