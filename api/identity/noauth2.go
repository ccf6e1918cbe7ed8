package identity

import (
	"net/http"
	"strings"

	"github.com/openberth/berth/fault"
)

// NoAuth2 trusts the headers of a request, as `[api] auth_strategy = noauth2` of OpenStack's Placement does:
//   - X-Auth-Token is `user` or `user:project`; a missing project is named as the user. The header is required; the
//     user in it may be empty.
//   - X-Roles lists the roles, separated by commas. Without it the user admin has the role admin and others have none.
//     With it admin has only the listed roles, too.
//   - Openstack-System-Scope sets the system scope, which has no project.
//   - X-Project-Id sets another project.
func NoAuth2(r *http.Request) (Identity, error) {
	if _, ok := r.Header["X-Auth-Token"]; !ok {
		return Identity{}, fault.New(fault.Forbidden,
			"the request has no X-Auth-Token, so it is not authenticated; send user:project, for example admin")
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

// joined returns a header's value; several lines are joined with commas, as web servers do for OpenStack's services.
func joined(h http.Header, name string) string { return strings.Join(h[name], ", ") }
