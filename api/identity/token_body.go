package identity

import (
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

// has reports whether the catalog has a service of a type, in any region.
func (d *tokenBody) has(kind string) bool {
	for _, service := range d.Token.Catalog {
		if service.Type == kind {
			return true
		}
	}
	return false
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
