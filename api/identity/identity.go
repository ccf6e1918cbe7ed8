// Package identity says who is asking: the user, project and roles that a request of an API carries.
//
// An Authenticator finds that out. NoAuth2 believes what the caller says of himself; a server that uses it must listen
// on loopback only.
package identity

import (
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// Identity is the caller of one request.
type Identity struct {
	User        string
	Project     string // empty: the token is for no project
	Roles       []string
	SystemScope string // "all": the token is for the whole system; empty: it is not

	// Keystone says these as well.
	UserName, UserDomain       string // the user's name, and the ID of its domain
	ProjectName, ProjectDomain string
	Domain                     string    // the ID of the domain that the token is for; empty: it is for none
	NotAdminProject            bool      // is_admin_project is false
	Service                    *Identity // who passes the request on, by X-Service-Token; nil: nobody
}

// Authenticator finds the caller of a request. Without one it returns a fault of kind Forbidden, which the edge answers with 401; any
// other fault says that it cannot be found out now.
type Authenticator func(*http.Request) (Identity, error)

// Has reports whether the caller has a role; roles are compared without regard to case, as oslo.policy does.
func (i Identity) Has(role string) bool {
	return slices.ContainsFunc(i.Roles, func(r string) bool { return strings.EqualFold(r, role) })
}

// IsAdmin reports whether the caller may see and do everything.
func (i Identity) IsAdmin() bool { return i.Has("admin") }

// NoAuth2 believes what a request says of itself, as `[api] auth_strategy = noauth2` of OpenStack's Placement does:
//   - X-Auth-Token is `user` or `user:project`; a missing project is named as the user. The header must be there, the user
//     in it may be empty.
//   - X-Roles lists the roles, separated by commas. Without it the user admin has the role admin and others have none; with it
//     admin has what it says, too.
//   - Openstack-System-Scope makes the token one for the system, which has no project.
//   - X-Project-Id names another project.
func NoAuth2(r *http.Request) (Identity, error) {
	if _, ok := r.Header["X-Auth-Token"]; !ok {
		return Identity{}, fault.New(fault.Forbidden, "identity.NoAuth2",
			"the request has no X-Auth-Token, so nobody vouches for it: send user:project, for example admin")
	}
	user, project, _ := strings.Cut(joined(r.Header, "X-Auth-Token"), ":")
	if project == "" {
		project = user
	}
	id := Identity{User: user, Project: project, SystemScope: joined(r.Header, "Openstack-System-Scope")}
	if id.SystemScope != "" {
		id.Project = ""
	}
	if other := joined(r.Header, "X-Project-Id"); other != "" {
		id.Project = other
	}
	if _, ok := r.Header["X-Roles"]; !ok {
		if user == "admin" {
			id.Roles = []string{"admin"}
		}
		return id, nil
	}
	for role := range strings.SplitSeq(joined(r.Header, "X-Roles"), ",") {
		if role = strings.TrimSpace(role); role != "" {
			id.Roles = append(id.Roles, role)
		}
	}
	return id, nil
}

// joined is a header's value; of several lines, as web servers hand them to the original.
func joined(h http.Header, name string) string { return strings.Join(h[name], ", ") }
