// Package identity determines the caller of an API request: the user, project and roles.
//
// An Authenticator does that. NoAuth2 trusts the headers of the request; a server that uses it must listen on loopback
// only.
package identity

import (
	"net/http"
	"slices"
	"strings"
)

// Identity is the caller of one request.
type Identity struct {
	User        string
	Project     string // empty: the token is for no project
	Roles       []string
	SystemScope string // "all": the token is for the whole system; empty: it is not

	// Set only by Keystone.
	UserName, UserDomain       string // the user's name, and the ID of its domain
	ProjectName, ProjectDomain string
	Domain                     string    // the ID of the domain that the token is for; empty: it is for none
	NotAdminProject            bool      // is_admin_project is false
	Service                    *Identity // the service that forwards the request, by X-Service-Token; nil: none
}

// Authenticator returns the caller of a request. It returns fault.Forbidden for a request without a valid token, which
// servers answer with 401; any other fault if the caller cannot be determined now.
type Authenticator func(*http.Request) (Identity, error)

// Has reports whether the caller has a role; roles are compared without regard to case, as oslo.policy does.
func (i Identity) Has(role string) bool {
	return slices.ContainsFunc(i.Roles, func(r string) bool { return strings.EqualFold(r, role) })
}

// IsAdmin reports whether the caller may see and do everything.
func (i Identity) IsAdmin() bool { return i.Has("admin") }

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
