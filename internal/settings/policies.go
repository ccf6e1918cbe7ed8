package settings

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	compute "github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/config"
	image "github.com/openberth/berth/image/policies"
	network "github.com/openberth/berth/network/policies"
	placement "github.com/openberth/berth/placement/policies"
	"github.com/openberth/berth/policy"
)

// Policy is the policy of one service for its callers.
type Policy struct {
	*policy.Enforcer
	denied error
}

// Check returns why the policy for authenticated callers could not be read. Only the service that uses the policy
// refuses to start then.
func (p Policy) Check() error { return p.denied }

// policyOptions are the rows of [oslo_policy], which package policy reads.
func (s *Settings) policyOptions() config.Options { return config.Listed(policy.Known()) }

// readPolicies reads the policy files beside the configuration files. Those of an OpenStack service on this machine
// apply only to callers that are authenticated: if auth_strategy is set to another one than noauth2. For Placement,
// where it is not set means Keystone. A warning about a file is logged once, although one file may have rules of
// several services.
func (s *Settings) readPolicies(cfg *config.Config, log *slog.Logger) error {
	var dirs, reported []string
	for _, file := range s.files {
		dirs = append(dirs, filepath.Dir(file))
	}
	names := policy.Names(compute.Rules(), image.Rules(), network.Rules(), placement.Rules())
	authenticated := s.Auth != "" && s.Auth != NoAuth2
	for _, of := range []struct {
		rules []policy.Rule
		dir   string // of OpenStack's service
		uses  bool   // that directory
		to    *Policy
	}{
		{placement.Rules(), "/etc/placement", s.Auth != NoAuth2, &s.Placement.Policy},
		{compute.Rules(), "/etc/nova", authenticated, &s.Compute.Policy},
		{network.Rules(), "/etc/neutron", authenticated, &s.Network.Policy},
		{image.Rules(), "/etc/glance", authenticated, &s.ImageStore.Policy},
	} {
		load := func(dirs []string) (err error) {
			of.to.Enforcer, err = policy.Load(cfg, of.rules, names, dirs...)
			return err
		}
		var err error
		if of.uses {
			if err = load(append(slices.Clone(dirs), of.dir)); errors.Is(err, fs.ErrPermission) {
				of.to.denied = err
			}
		}
		if !of.uses || of.to.denied != nil {
			err = load(dirs)
		}
		if err != nil {
			return err
		}
		for _, warning := range of.to.Warnings() {
			if !slices.Contains(reported, warning) {
				reported = append(reported, warning)
				log.Warn(warning)
			}
		}
	}
	return nil
}
