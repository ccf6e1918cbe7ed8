package settings

import (
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/policy"
)

// readCompute reads the options of compute's HTTP API except [cors], after readPlacement. The policy files of a Nova on
// this machine apply only to callers that are authenticated: if auth_strategy is set to another one than noauth2. What
// readPlacement has reported about the files of both policies is not reported again.
func (s *Settings) readCompute(cfg *config.Config, log *slog.Logger) (err error) {
	if s.Placement.Policy == nil { // readPlacement failed
		return nil
	}
	s.Compute.ProxyHeaders = s.Placement.ProxyHeaders
	dirs := []string{}
	for _, file := range s.files {
		dirs = append(dirs, filepath.Dir(file))
	}
	if s.Auth != "" && s.Auth != "noauth2" {
		dirs = append(dirs, "/etc/nova")
	}
	if s.Compute.Policy, err = policy.Load(cfg, policies.Rules(), policyNames(), dirs...); err != nil {
		return err
	}
	for _, warning := range s.Compute.Policy.Warnings() {
		if !slices.Contains(s.Placement.Policy.Warnings(), warning) {
			log.Warn(warning)
		}
	}
	return nil
}
