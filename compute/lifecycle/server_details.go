package lifecycle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Details is the part of a server that describes it. Its users may change it without an action on the guest.
type Details struct {
	Name, Description string
	Metadata          map[string]string
	Tags              []string // sorted
	AccessIPs
	AutoDisk bool
	Hostname string // read by the guest at its next first boot
	Zone     string
}

// Details returns the details of the server.
func (s Server) Details() Details {
	return Details{s.Name, s.Description, s.Metadata, s.Tags, s.AccessIPs, s.AutoDisk, s.Hostname, s.Zone}
}

// WithDetails returns the server with other details. now is the time of the change.
func (s Server) WithDetails(d Details, now time.Time) Server {
	s.Name, s.Description, s.Metadata, s.Tags = d.Name, d.Description, d.Metadata, d.Tags
	s.AccessIPs, s.AutoDisk, s.Hostname, s.Zone = d.AccessIPs, d.AutoDisk, d.Hostname, d.Zone
	s.Updated = now.UTC()
	return s
}

// DetailsChange is what an action changes of the details; nil fields stay.
type DetailsChange struct {
	Description            *string
	Metadata               map[string]string
	AccessIPv4, AccessIPv6 *string
	AutoDisk               *bool
}

// Applied returns the details after the change.
func (c DetailsChange) Applied(d Details) Details {
	set(&d.Description, c.Description)
	set(&d.AccessIPv4, c.AccessIPv4)
	set(&d.AccessIPv6, c.AccessIPv6)
	set(&d.AutoDisk, c.AutoDisk)
	if c.Metadata != nil {
		d.Metadata = c.Metadata
	}
	return d
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// RefuseChange returns why metadata or tags of the server cannot be changed now, or an empty string if they can. what
// completes "Cannot '…' instance". As in OpenStack, the guest must exist and be in order; idle means that no action may
// be in progress either.
func (s Server) RefuseChange(what string, idle bool) string {
	if vm := s.VMState(); !slices.Contains([]string{"active", "stopped", "paused", "suspended"}, vm) {
		return fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", what, s.ID, vm)
	}
	if task := s.TaskState(); idle && task != "" {
		return fmt.Sprintf("Cannot '%s' instance %s while it is in task_state %s", what, s.ID, task)
	}
	return ""
}

var noHostname = regexp.MustCompile(`[^a-z0-9.-]+`)

// GuestHostname returns the host name that was chosen, or the server's name as a host name: characters that are not
// allowed become hyphens, and it has at most 63 characters.
func (s Server) GuestHostname() string {
	if s.Hostname != "" {
		return s.Hostname
	}
	name := strings.Trim(noHostname.ReplaceAllString(strings.ToLower(s.Name), "-"), "-.")
	if name == "" {
		name = "server-" + s.ID
	}
	return strings.TrimRight(name[:min(len(name), 63)], "-.")
}

// DNSName returns the name of the ports of a server in DNS: its host name up to the first dot.
func (s Server) DNSName() string {
	name, _, _ := strings.Cut(strings.ToLower(s.GuestHostname()), ".")
	return strings.Trim(name[:min(len(name), 63)], "-")
}
