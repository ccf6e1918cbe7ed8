// Package identity says who is asking: the user, project and roles that a request of an API carries.
//
// Until Keystone is there, NoAuth2 believes what the caller says of himself. A server that uses it must listen
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
	User    string
	Project string
	Roles   []string
}

// Authenticator finds the caller of a request. Without one it returns a fault of kind Forbidden, which the edge answers with 401.
type Authenticator func(*http.Request) (Identity, error)

// Has reports whether the caller has a role; roles are compared without regard to case, as oslo.policy does.
func (i Identity) Has(role string) bool {
	return slices.ContainsFunc(i.Roles, func(r string) bool { return strings.EqualFold(r, role) })
}

// IsAdmin reports whether the caller may see and do everything.
func (i Identity) IsAdmin() bool { return i.Has("admin") }

// NoAuth2 reads X-Auth-Token as `user` or `user:project`, the way of OpenStack's own noauth2. The user
// "admin" is an admin; other roles come from X-Roles, separated by commas. A missing project is named as the user.
func NoAuth2(r *http.Request) (Identity, error) {
	token := r.Header.Get("X-Auth-Token")
	user, project, _ := strings.Cut(token, ":")
	if user == "" {
		return Identity{}, fault.New(fault.Forbidden, "identity.NoAuth2",
			"the request names no user: send the header X-Auth-Token as user:project, for example admin")
	}
	if project == "" {
		project = user
	}
	id := Identity{User: user, Project: project}
	for role := range strings.SplitSeq(r.Header.Get("X-Roles"), ",") {
		if role = strings.TrimSpace(role); role != "" {
			id.Roles = append(id.Roles, role)
		}
	}
	if user == "admin" && !id.IsAdmin() {
		id.Roles = append(id.Roles, "admin")
	}
	return id, nil
}
