package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// HostStates returns UP or DOWN for each host of these servers that has reported; nil if the caller may not see it.
func (s *Handlers) HostStates(ctx context.Context, c *request.Call, shown ...lifecycle.Server) (map[string]string,
	error) {
	if !c.Has(compute.HostStatus) || !c.Who.IsAdmin() {
		return nil, nil
	}
	dead, err := s.Store.Dead(ctx)
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	for _, one := range shown {
		name := one.Shown().Host
		if _, known := states[name]; known || name == "" {
			continue
		}
		switch h, err := s.Store.Host(ctx, name); {
		case fault.Is(err, fault.NotFound):
		case err != nil:
			return nil, err
		case slices.Contains(dead, name) || !s.Works(h):
			states[name] = "DOWN"
		default:
			states[name] = "UP"
		}
	}
	return states, nil
}

// serverView returns the view of a server at the version of the call, with what the caller may see.
func serverView(c *request.Call, s lifecycle.Server, hosts map[string]string) compute.Server {
	at := s.Shown()
	v := compute.Server{ID: s.ID, Name: s.Name, Status: s.Status(), ProjectID: s.Project, UserID: s.User,
		Metadata: request.NotNil(s.Metadata), HostID: HostID(s), Image: "", Flavor: serverFlavor(c, s),
		Created: compute.Time{Time: s.Created}, Updated: compute.Time{Time: s.Updated},
		Addresses: networking.Addresses(s),
		Links:     c.Links("servers", s.ID), DiskConfig: diskConfig(s.AutoDisk), ConfigDrive: configDrive(s),
		KeyName: request.OrNull(s.KeyName),
		VMState: s.VMState(), TaskState: request.OrNull(s.TaskState()), LaunchedAt: request.MicrosOrNull(s.Launched),
		TerminatedAt: request.MicrosOrNull(s.Ended),
		Volumes:      []any{}, IPv4: s.AccessIPv4, IPv6: s.AccessIPv6}
	if at.Host != "" {
		v.Zone = s.HostZone
	}
	if s.Image != "" {
		v.Image = imageRef(c, s)
	}
	v.PowerState = powerState(s)
	switch v.Status {
	case "ACTIVE", "BUILD", "DELETED", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING":
		v.Progress = new(int)
	}
	v.Fault = serverFault(c, s, v.Status)
	addVersioned(c, &v, s, hosts)
	return v
}

// powerState returns the power state of a server: 0 without a guest, 1 for one that runs, 3 for one that
// is paused, 4 for one that is shut down or suspended.
func powerState(s lifecycle.Server) int {
	status := s.Status()
	switch {
	case s.Launched.IsZero() || s.Shelved || status == "DELETED" || status == "ERROR" && s.Shown().Host == "":
		return 0
	case s.Actual == lifecycle.Paused:
		return 3
	case s.Actual == lifecycle.Off, s.Actual == lifecycle.Suspended: // libvirt shows a domain with a saved state so
		return 4
	}
	return 1
}

// imageRef returns the image of a server, since 2.98 with the properties that were stored with the server.
func imageRef(c *request.Call, s lifecycle.Server) compute.ImageRef {
	ref := compute.ImageRef{ID: s.Image, Links: c.Links("images", s.Image)[1:]}
	if c.Has(compute.ImageProperties) {
		ref.Properties = request.NotNil(s.SourceImage().Properties)
	}
	return ref
}

// serverFault returns why a server is in ERROR, or why the last change of its guest was given up; nil for neither.
func serverFault(c *request.Call, s lifecycle.Server, status string) *compute.ServerFault {
	f := s.Refusal
	if status == "ERROR" || status == "DELETED" {
		f = s.Fault
	}
	if f == nil {
		return nil
	}
	out := &compute.ServerFault{Code: f.Code, Message: c.WithoutHosts(s, f.Message),
		Created: compute.Time{Time: f.Created}}
	if c.Who.IsAdmin() {
		out.Details = f.Details
	}
	return out
}

// addVersioned adds the fields that the version and the caller's role show beyond 2.1.
func addVersioned(c *request.Call, v *compute.Server, s lifecycle.Server, hosts map[string]string) {
	if c.Who.IsAdmin() {
		v.Place = &compute.Place{Host: request.OrNull(s.Shown().Host), Hypervisor: request.OrNull(s.Shown().Host),
			InstanceName: s.ID}
		if c.Has(compute.ExtendedAttributes) {
			reservation, index := lifecycle.Reservation(s.ID)
			v.Extended = &compute.Extended{Reservation: reservation, LaunchIndex: index,
				UserData: request.OrNull(s.UserData)}
		}
		if c.Has(compute.HostStatus) {
			state, known := hosts[s.Shown().Host]
			if !known && s.Shown().Host != "" {
				state = "UNKNOWN"
			}
			v.HostStatus = &state
		}
	}
	if c.Has(compute.Locked) {
		v.Locked = new(s.Lock != nil)
	}
	if c.Has(compute.ServerDescription) {
		v.Described = &compute.Described{Description: request.OrNull(s.Description)}
	}
	if c.Has(compute.Tags) {
		v.Tags = slices.Clone(s.Tags)
		if v.Tags == nil {
			v.Tags = []string{}
		}
	}
	addNewest(c, v, s)
}

// addNewest adds the fields that versions after 2.61 show.
func addNewest(c *request.Call, v *compute.Server, s lifecycle.Server) {
	if c.Has(compute.TrustedImages) {
		v.Certified = &compute.Certified{}
	}
	if c.Has(compute.LockReason) {
		v.LockedFor = &compute.LockedFor{}
		if s.Lock != nil {
			v.LockedFor.LockedReason = request.OrNull(s.Lock.Reason)
		}
	}
	if c.Has(compute.Hostname) || c.Has(compute.ExtendedAttributes) && c.Who.IsAdmin() {
		v.Hostname = request.OrNull(s.GuestHostname())
	}
	if c.Has(compute.PinnedZone) {
		v.PinnedTo = &compute.PinnedTo{PinnedZone: request.OrNull(s.Zone)}
	}
	if c.Has(compute.HintsShown) {
		v.Hints = compute.HintsView{}
		if s.Group != "" {
			v.Hints["group"] = s.Group
		}
		for key, ids := range map[string][]string{"same_host": s.SameHost, "different_host": s.DifferentHost} {
			if len(ids) > 0 {
				v.Hints[key] = ids
			}
		}
	}
}

// OneView returns the view of a server that is not part of a list: it shows the groups of the server, too.
func (s *Handlers) OneView(c *request.Call, one lifecycle.Server, hosts map[string]string) (compute.Server, error) {
	v := serverView(c, one, hosts)
	v.SecurityGroups = networking.GroupNames(s.Networking.Groups().Of(c.R.Context(), one)[one.ID])
	if !c.Has(compute.ServerGroupsShown) {
		return v, nil
	}
	var err error
	v.Groups, err = groupsOf(c.R.Context(), s.Store, one)
	return v, err
}

// notInChanged are the beginnings of the keys that the answers to PUT and to a rebuild do not have before 2.75.
var notInChanged = []string{"OS-EXT-AZ:", "OS-EXT-SRV-ATTR:", "OS-EXT-STS:", "OS-SRV-USG:", "os-extended-volumes:",
	"config_drive", "host_status", "key_name", "security_groups"}

// ChangedView returns the server in the answers to PUT and to a rebuild. Since 2.75 it is that of GET; before, it lacks
// many keys, except those in keep.
func ChangedView(c *request.Call, v compute.Server, keep ...string) (any, error) {
	if c.Has(compute.StrictRequests) {
		return v, nil
	}
	for _, list := range v.Addresses {
		for i := range list {
			list[i].AddressDetails = nil
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, err
	}
	maps.DeleteFunc(keys, func(key string, _ json.RawMessage) bool {
		return !slices.Contains(keep, key) &&
			slices.ContainsFunc(notInChanged, func(begin string) bool { return strings.HasPrefix(key, begin) })
	})
	return keys, nil
}

func serverFlavor(c *request.Call, s lifecycle.Server) compute.ServerFlavor {
	f := s.Shown().Flavor
	if !c.Has(compute.EmbeddedFlavor) {
		return compute.ServerFlavor{ID: f.ID, Links: c.Links("flavors", f.ID)[1:]}
	}
	return compute.ServerFlavor{FlavorValues: &compute.FlavorValues{VCPUs: f.VCPUs, RAM: f.MemoryMB, Disk: f.DiskGB,
		Ephemeral: f.Ephemeral, Swap: f.Swap, Name: f.Name, ExtraSpecs: request.NotNil(f.ExtraSpecs)}}
}

// HostID returns a hash of project and host. It shows a user which servers share a host, but not which host that is.
func HostID(s lifecycle.Server) string {
	host := s.Shown().Host
	if host == "" {
		return ""
	}
	sum := sha256.Sum224([]byte(s.Project + host))
	return hex.EncodeToString(sum[:])
}

// writeServer responds with one server in detail.
func (s *Handlers) writeServer(c *request.Call, found lifecycle.Server) error {
	hosts, err := s.HostStates(c.R.Context(), c, found)
	if err != nil {
		return err
	}
	v, err := s.OneView(c, found, hosts)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"server": v})
}
