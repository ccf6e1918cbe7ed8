package compute

// InstanceAction is an action on a server, as the history of the server has it.
type InstanceAction struct {
	Action    string           `json:"action"` // create, delete, reboot, …
	Server    string           `json:"instance_uuid"`
	Request   string           `json:"request_id"` // identifies the action of the server
	UserID    string           `json:"user_id"`    // the owner of the server
	ProjectID string           `json:"project_id"`
	Started   string           `json:"start_time"`           // 2006-01-02T15:04:05.000000
	Message   *string          `json:"message"`              // "Error" if it failed
	Updated   *string          `json:"updated_at,omitempty"` // 2.58
	Events    *[]InstanceEvent `json:"events,omitempty"`     // of one action: admins, and all since 2.51
}

// InstanceEvent is one entry in the history of a server, as an event of an action.
type InstanceEvent struct {
	Event     string  `json:"event"`
	Started   string  `json:"start_time"`
	Finished  *string `json:"finish_time"` // when the next entry began; null for the last one of an action in progress
	Result    *string `json:"result"`      // Success, Error, or null
	Traceback *string `json:"traceback,omitempty"`
}
