package settings

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// The groups of the options with which services call Placement, compute and the network service.
const (
	placementGroup = "placement"
	computeGroup   = "compute"
	neutronGroup   = "neutron"
)

// RolesSuffix is appended to the name of the user file for the default of [berth] roles_file.
const RolesSuffix = ".roles"

// accountOptions are the rows of AccountSettings, and of [keystone_authtoken].
func (s *Settings) accountOptions() config.Options {
	b := &s.Accounts.Basic
	return append(config.Listed(slices.Concat(identity.KnownKeystone(), identity.KnownCalls(placementGroup),
		identity.KnownCalls(computeGroup), identity.KnownCalls(neutronGroup))),
		config.Text("DEFAULT", "http_basic_auth_user_file", &b.File, "/etc/berth/htpasswd"),
		config.Text("berth", "roles_file", &b.Roles, ""),
		config.List("berth", "admin_users", &b.Admins),
		config.List("berth", "service_users", &b.Services),
		config.ParsedList("berth", "user_projects", &b.Projects, parseUserProjects))
}

// readAccounts reads the accounts with which services call each other.
func (s *Settings) readAccounts(cfg *config.Config, _ *slog.Logger) (err error) {
	a := &s.Accounts
	if _, set := cfg.Get("berth", "roles_file"); !set {
		a.Basic.Roles = a.Basic.File + RolesSuffix
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

// parseUserProjects parses [berth] user_projects, a dictionary in OpenStack's syntax: name:project,name:project.
func parseUserProjects(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	projects := map[string]string{}
	for _, pair := range pairs {
		name, project, found := strings.Cut(pair, ":")
		name, project = strings.TrimSpace(name), strings.TrimSpace(project)
		if !found || name == "" || project == "" {
			return nil, fault.New(fault.Invalid, "%q is not NAME:PROJECT; write pairs separated by commas", pair)
		}
		if projects[name] != "" {
			return nil, fault.New(fault.Invalid, "account %s has two projects; an account has one project", name)
		}
		projects[name] = project
	}
	return projects, nil
}
