// Package policies holds the default access policy of the Image API: Glance's rules under Glance's names.
//
// The defaults permit:
//
//	                                      owner   others                     service   admin
//	list, show, download                  yes     public, community, shared  yes       yes, of all projects
//	create, change, upload, delete        yes     no                         no        yes
//	upload the disk of a shelved server   yes     no                         yes       yes
//	accept or reject a shared image       no      members                    no        yes
//	make public, deactivate, reactivate   no      no                         no        yes
//
// A caller of the project needs no role, because callers of noauth2 have none.
package policies

import (
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/policy"
)

// The checks of the defaults.
const (
	admin  = "rule:context_is_admin"
	reader = "rule:context_is_admin or rule:owner or rule:visible or rule:service_api"
	owner  = "rule:context_is_admin or rule:owner"
	member = "rule:context_is_admin or rule:member"
)

// rows are the rules by their checks.
var rows = []policy.Row{
	{Check: "@", Names: "get_images get_members"},
	{Check: reader, Names: "get_image download_image get_member"},
	{Check: owner, Names: `add_image modify_image delete_image communitize_image add_member delete_member
		deactivate reactivate`},
	{Check: owner + " or (rule:service_api and rule:shelved)", Names: "upload_image"},
	{Check: member, Names: "modify_member"},
	{Check: admin, Names: "publicize_image get_task get_tasks add_task stores_info_detail"},
}

// base are the rules to which others refer.
func base() []policy.Rule {
	return []policy.Rule{
		{Name: "context_is_admin", Check: "role:admin", Description: "An administrator."},
		{Name: "default", Check: "", Description: "Every caller."},
		{Name: "owner", Check: "project_id:%(project_id)s", Description: "A caller of the project of the image."},
		{Name: "visible", Check: "True:%(visible)s",
			Description: "The image is public or community, or shared with the project of the caller."},
		{Name: "member", Check: "project_id:%(member_id)s", Description: "A caller of the project that is the member."},
		{Name: "shelved", Check: "True:%(shelved)s",
			Description: "Compute has created the image for the disk of a shelved server."},
		{Name: "service_api", Check: "role:service", Description: "Another service of the cloud, or an agent."},
	}
}

// table is the default policy.
var table = policy.Table{Service: "image", Base: base(), Rows: rows}

// Rules returns the defaults, with the base rules that policy files refer to.
func Rules() []policy.Rule { return table.Rules() }

// Default returns an Enforcer of the defaults.
func Default() identity.Enforcer { return identity.Enforcer{Policy: enforcer()} }

var enforcer = table.Defaults()
