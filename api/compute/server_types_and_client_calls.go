package compute

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/openberth/berth/fault"
)

// Server is a server in detail. Nil pointers are null where the API has null for unknown values. Nil embedded
// pointers leave their keys out: those that the microversion or the role of the caller does not include.
type Server struct {
	ID        string               `json:"id"`
	Name      string               `json:"name"`
	Status    string               `json:"status"` // BUILD, ACTIVE, ERROR, DELETED, …
	ProjectID string               `json:"tenant_id"`
	UserID    string               `json:"user_id"`
	Metadata  map[string]string    `json:"metadata"`
	HostID    string               `json:"hostId"` // a hash of project and host, "" while there is no host
	Image     any                  `json:"image"`  // "" without an image, else ImageRef
	Flavor    ServerFlavor         `json:"flavor"`
	Created   Time                 `json:"created"`
	Updated   Time                 `json:"updated"`
	Addresses map[string][]Address `json:"addresses"` // by the name of the network
	IPv4      string               `json:"accessIPv4"`
	IPv6      string               `json:"accessIPv6"`
	Links     []Link               `json:"links"`
	Progress  *int                 `json:"progress,omitempty"` // percent; only in the states that have one
	Fault     *ServerFault         `json:"fault,omitempty"`    // in ERROR and DELETED, or if a change of its guest failed

	DiskConfig   string  `json:"OS-DCF:diskConfig"` // MANUAL
	Zone         string  `json:"OS-EXT-AZ:availability_zone"`
	KeyName      *string `json:"key_name"`
	ConfigDrive  string  `json:"config_drive"`
	VMState      string  `json:"OS-EXT-STS:vm_state"`    // building, active, error, deleted
	TaskState    *string `json:"OS-EXT-STS:task_state"`  // such as spawning; null when no task is in progress
	PowerState   int     `json:"OS-EXT-STS:power_state"` // 0 unknown, 1 running
	LaunchedAt   *string `json:"OS-SRV-USG:launched_at"` // 2006-01-02T15:04:05.000000
	TerminatedAt *string `json:"OS-SRV-USG:terminated_at"`
	Volumes      []any   `json:"os-extended-volumes:volumes_attached"`

	SecurityGroups []GroupName `json:"security_groups,omitempty"` // of its ports

	*Place               // admins
	*Extended            // admins, 2.3
	Hostname   *string   `json:"OS-EXT-SRV-ATTR:hostname,omitempty"` // admins, 2.3; all, 2.90
	Locked     *bool     `json:"locked,omitempty"`                   // 2.9
	HostStatus *string   `json:"host_status,omitempty"`              // admins, 2.16: UP, DOWN, UNKNOWN, "" without a host
	*Described           // 2.19
	Tags       []string  `json:"tags,omitzero"` // 2.26
	*Rebuilt             // in the response of a rebuild, 2.57
	Passworded           // in the response of a rebuild
	*Certified           // 2.63
	Groups     []string  `json:"server_groups,omitzero"` // ids; 2.71, not in lists
	*LockedFor           // 2.73
	*PinnedTo            // 2.96
	Hints      HintsView `json:"scheduler_hints,omitzero"` // 2.100
}

// Passworded holds the password of a guest's administrator; empty: it is not shown.
type Passworded struct {
	AdminPass string `json:"adminPass,omitempty"`
}

// HintsView are the scheduler hints of the request that created a server.
type HintsView map[string]any

// Certified holds the ids of the certificates that the image of a server was checked with. Berth checks none.
type Certified struct {
	Certificates []string `json:"trusted_image_certificates"`
}

// LockedFor holds why a server is locked; null: no reason is given.
type LockedFor struct {
	LockedReason *string `json:"locked_reason"`
}

// PinnedTo holds the availability zone that a server does not leave; null: any.
type PinnedTo struct {
	PinnedZone *string `json:"pinned_availability_zone"`
}

// Rebuilt is what the response of a rebuild shows beside the server.
type Rebuilt struct {
	UserData *string `json:"user_data"`
}

// Place is the host of a server; only admins see it.
type Place struct {
	Host         *string `json:"OS-EXT-SRV-ATTR:host"`
	Hypervisor   *string `json:"OS-EXT-SRV-ATTR:hypervisor_hostname"`
	InstanceName string  `json:"OS-EXT-SRV-ATTR:instance_name"`
}

// Extended are the attributes for admins since 2.3. Berth has no kernel images, RAM disks, or root devices.
type Extended struct {
	Reservation string  `json:"OS-EXT-SRV-ATTR:reservation_id"` // r-… : servers of one request share it
	LaunchIndex int     `json:"OS-EXT-SRV-ATTR:launch_index"`   // from 0 within the request
	Kernel      string  `json:"OS-EXT-SRV-ATTR:kernel_id"`
	RAMDisk     string  `json:"OS-EXT-SRV-ATTR:ramdisk_id"`
	RootDevice  *string `json:"OS-EXT-SRV-ATTR:root_device_name"`
	UserData    *string `json:"OS-EXT-SRV-ATTR:user_data"`
}

// Described holds a description that may be null.
type Described struct {
	Description *string `json:"description"`
}

// ServerFlavor is the flavor inside a server: its id before 2.47, its values since.
type ServerFlavor struct {
	ID    string `json:"id,omitempty"`
	Links []Link `json:"links,omitempty"`
	*FlavorValues
}

// FlavorValues is a flavor as it was when the server was made (2.47). RAM and swap in MiB, disks in GiB.
type FlavorValues struct {
	VCPUs      int               `json:"vcpus"`
	RAM        int               `json:"ram"`
	Disk       int               `json:"disk"`
	Ephemeral  int               `json:"ephemeral"`
	Swap       int               `json:"swap"`
	Name       string            `json:"original_name"`
	ExtraSpecs map[string]string `json:"extra_specs"`
}

// ImageRef names an image of the image service.
type ImageRef struct {
	ID         string            `json:"id"`
	Links      []Link            `json:"links"`
	Properties map[string]string `json:"properties,omitzero"` // 2.98: those that were stored with the server
}

// ServerFault is the reason why a server is in ERROR, or why its guest was not stopped, started or rebuilt.
type ServerFault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Details string `json:"details,omitempty"` // more sentences, for admins
	Created Time   `json:"created"`
}

// Time is encoded in whole seconds in UTC: 2026-01-02T15:04:05Z.
type Time struct{ time.Time }

const wholeSeconds = "2006-01-02T15:04:05Z"

// String returns the time as it is encoded.
func (t Time) String() string { return t.UTC().Format(wholeSeconds) }

// MarshalJSON encodes the time.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON decodes the time.
func (t *Time) UnmarshalJSON(text []byte) (err error) {
	t.Time, err = time.Parse(`"`+wholeSeconds+`"`, string(text))
	return err
}

// The values of `networks` when it is a word (2.37).
const (
	NetworksNone = "none"
	NetworksAuto = "auto"
)

// Networks is the value of `networks`: List, or Word (NetworksNone or NetworksAuto) if List is empty.
type Networks struct {
	Word string
	List []NetworkRequest
}

// NetworkRequest is an entry of `networks`: a port, or a network in which compute creates one.
type NetworkRequest struct {
	Network string `json:"uuid,omitempty"`
	Port    string `json:"port,omitempty"`
	FixedIP string `json:"fixed_ip,omitempty"` // only with Network
	Tag     string `json:"tag,omitempty"`
}

// MarshalJSON encodes the list or the word; the zero value is NetworksNone.
func (n Networks) MarshalJSON() ([]byte, error) {
	if len(n.List) > 0 {
		return json.Marshal(n.List)
	}
	return json.Marshal(cmp.Or(n.Word, NetworksNone))
}

// CreateServer is a request for one server, or for up to MaxCount servers.
type CreateServer struct {
	Name        string            `json:"name"`
	Flavor      string            `json:"flavorRef"` // its id
	Image       string            `json:"imageRef"`  // may be empty
	Networks    Networks          `json:"networks"`
	KeyName     string            `json:"key_name,omitempty"`        // of a key pair of the user
	UserData    string            `json:"user_data,omitempty"`       // in base64
	Groups      []GroupName       `json:"security_groups,omitempty"` // of the ports that are created: names or ids
	Description string            `json:"description,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	MinCount    int               `json:"min_count,omitempty"` // if fewer can be created, none is
	MaxCount    int               `json:"max_count,omitempty"` // the servers are called Name-1 to Name-MaxCount
	Reservation bool              `json:"return_reservation_id,omitempty"`
}

// Created is the response to CreateServer: the first of the created servers, or the reservation if it was requested.
type Created struct {
	ID             string      `json:"id"`
	Links          []Link      `json:"links"`
	DiskConfig     string      `json:"OS-DCF:diskConfig"`
	SecurityGroups []GroupName `json:"security_groups"`
	AdminPass      string      `json:"adminPass,omitempty"` // of the guest's administrator
	Reservation    string      `json:"-"`
}

// ListServers selects servers. Zero values select all of the caller's project.
type ListServers struct {
	Name        string // a regular expression, matched anywhere in the name
	Status      string // such as ACTIVE
	Host        string // admins
	AllProjects bool   // admins
	Deleted     bool   // admins: deleted servers instead of existing ones
	Reservation string // servers of one request

	ChangedSince time.Time // those that have changed since then, deleted ones too; zero: all
}

const (
	pageSize = 1000 // servers of one page
	maxPages = 1000 // a longer list fails
)

func (l ListServers) query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"name": l.Name, "status": l.Status, "host": l.Host,
		"reservation_id": l.Reservation} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if l.AllProjects {
		q.Set("all_tenants", "1")
	}
	if l.Deleted {
		q.Set("deleted", "true")
	}
	if !l.ChangedSince.IsZero() {
		q.Set("changes-since", l.ChangedSince.UTC().Format(time.RFC3339))
	}
	return q
}

// Servers lists servers in detail, newest first. It reads all pages.
func (c *Client) Servers(ctx context.Context, l ListServers) ([]Server, error) {
	var all []Server
	q := l.query()
	q.Set("limit", strconv.Itoa(pageSize))
	for range maxPages {
		var page struct {
			Servers []Server `json:"servers"`
			Next    []Link   `json:"servers_links"` // of a service whose pages are smaller
		}
		if _, err := c.REST.Do(ctx, http.MethodGet, "/v2.1/servers/detail?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Servers...)
		if len(page.Servers) == 0 || len(page.Servers) < pageSize && len(page.Next) == 0 {
			return all, nil
		}
		q.Set("marker", page.Servers[len(page.Servers)-1].ID)
	}
	return nil, fault.New(fault.Invalid, "more than %d servers; "+
		"restrict the list by name, status or host", pageSize*maxPages)
}

// CreateServer requests a server and returns as soon as it is recorded; it is then in BUILD.
func (c *Client) CreateServer(ctx context.Context, s CreateServer) (Created, error) {
	var out struct {
		Server      Created `json:"server"`
		Reservation string  `json:"reservation_id"`
	}
	_, err := c.REST.Do(ctx, http.MethodPost, "/v2.1/servers", map[string]any{"server": s}, &out)
	out.Server.Reservation = out.Reservation
	return out.Server, err
}

// Server returns one server by id or by exact name; admins find those of all projects, and those that are soft-deleted
// if no other server has the name. It returns fault.Conflict if several servers have the name.
func (c *Client) Server(ctx context.Context, idOrName string) (Server, error) {
	var out struct {
		Server Server `json:"server"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/v2.1/servers/"+url.PathEscape(idOrName), nil, &out)
	if err == nil && out.Server.ID != "" || err != nil && !fault.Is(err, fault.NotFound) {
		return out.Server, err // a name such as "detail" leads to an answer that is not a server
	}
	search := ListServers{Name: "^" + regexp.QuoteMeta(idOrName) + "$", AllProjects: true}
	named, err := c.Servers(ctx, search)
	switch {
	case fault.Is(err, fault.Forbidden):
		search.AllProjects = false
		named, err = c.Servers(ctx, search)
	case err == nil && len(named) == 0:
		search.Deleted, search.Status = true, "SOFT_DELETED"
		named, err = c.Servers(ctx, search)
	}
	switch {
	case err != nil:
		return Server{}, err
	case len(named) == 0:
		return Server{}, fault.New(fault.NotFound, "no server has the id or the name %q; %s", idOrName,
			fault.DidYouMean(idOrName, c.someNames(ctx, search.AllProjects), "`berth server list` shows all"))
	case len(named) > 1:
		return Server{}, fault.New(fault.Conflict, "%d servers have the name %q; use the id",
			len(named), idOrName)
	}
	return named[0], nil
}

// someNames returns the names of the newest servers: as many as one answer has, none without an answer.
func (c *Client) someNames(ctx context.Context, all bool) (known []string) {
	var page struct {
		Servers []struct{ Name string } `json:"servers"`
	}
	query := ListServers{AllProjects: all}.query()
	if _, err := c.REST.Do(ctx, http.MethodGet, "/v2.1/servers?"+query.Encode(), nil, &page); err != nil {
		return nil
	}
	for _, s := range page.Servers {
		known = append(known, s.Name)
	}
	return known
}

// ServerByID returns one server by its id alone.
func (c *Client) ServerByID(ctx context.Context, id string) (Server, error) {
	var out struct {
		Server Server `json:"server"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/v2.1/servers/"+url.PathEscape(id), nil, &out)
	return out.Server, err
}

// DeleteServer requests the deletion of a server. The server is deleted once Server returns fault.NotFound.
func (c *Client) DeleteServer(ctx context.Context, id string) error {
	_, err := c.REST.Do(ctx, http.MethodDelete, "/v2.1/servers/"+url.PathEscape(id), nil, nil)
	return err
}

// Act requests an action on a server, by its key and arguments. It returns as soon as the request is recorded. A server
// that is evacuated runs again if it ran: since 2.95 it would stay stopped.
func (c *Client) Act(ctx context.Context, id, action string, args map[string]any) error {
	client := c.REST
	if action == "evacuate" {
		client = client.WithHeader(VersionHeader, Service+" "+(EvacuateStopped-1).String())
	}
	body := map[string]any{action: nil}
	if args != nil {
		body[action] = args
	}
	_, err := client.Do(ctx, http.MethodPost, "/v2.1/servers/"+url.PathEscape(id)+"/action", body, nil)
	return err
}

// Address is an address of a server.
type Address struct {
	Address string `json:"addr"`
	Version int    `json:"version"` // 4 or 6
	*AddressDetails
}

// AddressDetails are what only some answers show of an address.
type AddressDetails struct {
	MAC  string `json:"OS-EXT-IPS-MAC:mac_addr"`
	Type string `json:"OS-EXT-IPS:type"` // fixed
}
