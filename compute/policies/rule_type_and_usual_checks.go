package policies

// The checks of the defaults. Most refer to a base rule.
const (
	admin   = "rule:context_is_admin"
	reader  = "rule:project_reader_or_admin"
	member  = "rule:project_member_or_admin"
	service = "rule:service_or_admin"
	agent   = "rule:agent_api"

	user      = "rule:context_is_admin or user_id:%(user_id)s"
	everybody = "@"
)
