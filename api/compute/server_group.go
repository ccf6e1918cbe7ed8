package compute

// ServerGroup is a group of servers, and the policy by which their hosts are chosen. Nil pointers leave their keys out:
// those that the microversion does not have.
type ServerGroup struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Members []string `json:"members"` // ids of servers

	*PolicyList        // before 2.64
	*GroupOwner        // 2.13
	*ServerGroupPolicy // 2.64
}

// PolicyList is the policy of a server group before 2.64.
type PolicyList struct {
	Policies []string          `json:"policies"`
	Metadata map[string]string `json:"metadata"` // empty
}

// GroupOwner is the owner of a server group.
type GroupOwner struct {
	ProjectID string `json:"project_id"`
	UserID    string `json:"user_id"`
}

// ServerGroupPolicy is the policy of a server group from 2.64 on.
type ServerGroupPolicy struct {
	Policy string         `json:"policy"`
	Rules  map[string]int `json:"rules"`
}

// MaxServerPerHost is the rule of anti-affinity: how many members of the group one host may have.
const MaxServerPerHost = "max_server_per_host"
