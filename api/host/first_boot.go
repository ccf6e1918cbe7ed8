package host

import (
	"context"
	"net/http"
)

// FirstBoot is what the guest of a server reads from its config drive. It is not part of the assignments: it may be
// large and contain secrets, and an agent needs it only when it makes the drive.
type FirstBoot struct {
	KeyName   string            `json:"key_name,omitempty"`   // of PublicKey; absent: no key
	PublicKey string            `json:"public_key,omitempty"` // in OpenSSH's format
	UserData  []byte            `json:"user_data,omitempty"`  // absent: none
	Metadata  map[string]string `json:"metadata,omitempty"`
	Project   string            `json:"project_id,omitempty"`
	Zone      string            `json:"availability_zone,omitempty"`
	Index     int               `json:"launch_index"` // of the server in its request, from 0
}

// FirstBoot returns what the guest of a server reads when it boots. It returns fault.NotFound for a server that is not
// assigned to the host.
func (c Client) FirstBoot(ctx context.Context, host, server string) (out FirstBoot, err error) {
	_, err = c.REST.Do(ctx, http.MethodGet, path(host, "guests", server), nil, &out)
	return out, err
}
