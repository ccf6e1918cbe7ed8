package compute

// GroupName is a security group in the view of a server.
type GroupName struct {
	Name string `json:"name"`
}

// SecurityGroup is a security group of the ports of a server.
type SecurityGroup struct {
	ID          string              `json:"id"`
	Name        string              `json:"name"`
	Description string              `json:"description"`
	Project     string              `json:"tenant_id"`
	Rules       []SecurityGroupRule `json:"rules"`
}

// SecurityGroupRule is incoming traffic that a security group permits: from a range of addresses or from a group.
type SecurityGroupRule struct {
	ID       string            `json:"id"`
	Parent   string            `json:"parent_group_id"`
	Protocol *string           `json:"ip_protocol"`
	From     *int              `json:"from_port"`
	To       *int              `json:"to_port"`
	Group    map[string]string `json:"group"`
	Range    map[string]string `json:"ip_range"`
}
