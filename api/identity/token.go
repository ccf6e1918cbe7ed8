package identity

import (
	"regexp"
	"strings"
	"time"
)

// tokenBody is the body of Keystone's /v3/auth/tokens, with the keys that are used here.
type tokenBody struct {
	Token struct {
		User struct {
			ID, Name string
			Domain   named
		}
		Project *struct {
			ID, Name string
			Domain   named
		}
		Domain                *named
		System                map[string]any
		Roles                 []named
		ExpiresAt             time.Time `json:"expires_at"`
		IsAdminProject        *bool     `json:"is_admin_project"`
		ApplicationCredential *struct {
			AccessRules *[]accessRule `json:"access_rules"`
		} `json:"application_credential"`
		Catalog []struct {
			Type      string
			Endpoints []endpoint
		}
	}
}

type named struct{ ID, Name string }

type endpoint struct {
	Interface, Region, URL string
	RegionID               string `json:"region_id"`
}

// accessRule is a request that an application credential may make.
type accessRule struct{ Service, Method, Path string }

// tokenInfo is the content of a valid token.
type tokenInfo struct {
	id      Identity
	expires time.Time
	rules   *[]accessRule // nil: all requests
}

func (d *tokenBody) info() *tokenInfo {
	t := &d.Token
	v := &tokenInfo{expires: t.ExpiresAt,
		id: Identity{User: t.User.ID, UserName: t.User.Name, UserDomain: t.User.Domain.ID}}
	for _, role := range t.Roles {
		v.id.Roles = append(v.id.Roles, role.Name)
	}
	if t.Project != nil {
		v.id.Project, v.id.ProjectName, v.id.ProjectDomain = t.Project.ID, t.Project.Name, t.Project.Domain.ID
	}
	if t.Domain != nil {
		v.id.Domain = t.Domain.ID
	}
	if t.System["all"] == true {
		v.id.SystemScope = "all"
	}
	v.id.NotAdminProject = t.IsAdminProject != nil && !*t.IsAdminProject
	if t.ApplicationCredential != nil {
		v.rules = t.ApplicationCredential.AccessRules
	}
	return v
}

// identityURL returns Keystone's own URL in the catalog; empty if it has none.
func (d *tokenBody) identityURL(iface, region string) string {
	return d.addressOf("identity", iface, region)
}

// addressOf returns the URL of a type of service in the catalog; empty if it has none.
func (d *tokenBody) addressOf(kind, iface, region string) string {
	for _, service := range d.Token.Catalog {
		if service.Type != kind {
			continue
		}
		for _, e := range service.Endpoints {
			if strings.EqualFold(e.Interface, iface) && (region == "" || region == e.Region || region == e.RegionID) {
				return e.URL
			}
		}
	}
	return ""
}

// matches reports whether the rule allows a request. In its path, {name} and * match one segment, ** any number.
func (a accessRule) matches(service, method, path string) bool {
	if a.Service != service || a.Method != method {
		return false
	}
	pattern := steps.ReplaceAllStringFunc(a.Path, func(part string) string {
		switch {
		case part == "**":
			return ".*"
		case part == "*" || strings.HasPrefix(part, "{"):
			return "[^/]+"
		}
		return regexp.QuoteMeta(part)
	})
	ok, err := regexp.MatchString("^(?s:"+pattern+")$", path)
	return ok && err == nil
}

var steps = regexp.MustCompile(`\{[^}]*\}|\*\*|\*|[^{*]+|\{`)

// Credentials returns the attributes of the caller for policies, under oslo.context's names. Those that the token does
// not have are nil.
func (i Identity) Credentials() map[string]any {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	service := Identity{}
	if i.Service != nil {
		service = *i.Service
	}
	list := func(roles []string) []string { return append([]string{}, roles...) }
	return map[string]any{
		"user_id": text(i.User), "user_domain_id": text(i.UserDomain),
		"project_id": text(i.Project), "project_domain_id": text(i.ProjectDomain),
		"domain_id": text(i.Domain), "system_scope": text(i.SystemScope),
		"roles": list(i.Roles), "is_admin_project": !i.NotAdminProject,
		"service_user_id": text(service.User), "service_user_domain_id": text(service.UserDomain),
		"service_project_id": text(service.Project), "service_project_domain_id": text(service.ProjectDomain),
		"service_roles": list(service.Roles),
	}
}
