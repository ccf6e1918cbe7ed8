package settings

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/config"
)

// The groups of the options with which services call Placement, compute and the network service.
const (
	placementGroup = "placement"
	computeGroup   = "compute"
	neutronGroup   = "neutron"
)

// defaultUserFile is the default of [DEFAULT] http_basic_auth_user_file.
const defaultUserFile = "/etc/berth/htpasswd"

// knownAccounts lists the options of AccountSettings.
func knownAccounts() []config.Name {
	return append(slices.Concat(identity.KnownCalls(placementGroup), identity.KnownCalls(computeGroup),
		identity.KnownCalls(neutronGroup)), config.Name{Group: "DEFAULT", Option: "http_basic_auth_user_file"},
		config.Name{Group: "berth", Option: "admin_users"}, config.Name{Group: "berth", Option: "service_users"},
		config.Name{Group: "berth", Option: "user_projects"})
}

func (s *Settings) readAccounts(cfg *config.Config, _ *slog.Logger) (err error) {
	a := &s.Accounts
	if a.Basic.File, err = cfg.String("DEFAULT", "http_basic_auth_user_file", defaultUserFile, nil); err != nil {
		return err
	}
	if a.Basic.Admins, err = cfg.Strings("berth", "admin_users", nil); err != nil {
		return err
	}
	if a.Basic.Services, err = cfg.Strings("berth", "service_users", nil); err != nil {
		return err
	}
	if a.Basic.Projects, err = readUserProjects(cfg); err != nil {
		return err
	}
	if a.Placement, err = identity.ReadCalls(cfg, placementGroup); err != nil {
		return err
	}
	if a.Compute, err = identity.ReadCalls(cfg, computeGroup); err != nil {
		return err
	}
	a.Network, err = identity.ReadCalls(cfg, neutronGroup)
	return err
}

// readUserProjects reads [berth] user_projects, a dictionary in OpenStack's syntax: name:project,name:project.
func readUserProjects(cfg *config.Config) (map[string]string, error) {
	pairs, err := cfg.Strings("berth", "user_projects", nil)
	if err != nil || len(pairs) == 0 {
		return nil, err
	}
	e, _ := cfg.Get("berth", "user_projects")
	projects := map[string]string{}
	for _, pair := range pairs {
		name, project, found := strings.Cut(pair, ":")
		name, project = strings.TrimSpace(name), strings.TrimSpace(project)
		if !found || name == "" || project == "" {
			return nil, e.Fault("%q is not NAME:PROJECT; write pairs separated by commas", pair)
		}
		if projects[name] != "" {
			return nil, e.Fault("account %s has two projects; an account has one project", name)
		}
		projects[name] = project
	}
	return projects, nil
}
