// Package settings reads and checks the configuration files of all services: options of Placement, compute and the
// agent under OpenStack's names, and Berth's own options in [berth]. It starts nothing.
package settings

import (
	"fmt"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/internal/httpserver"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/policy"
)

// Settings are the options of the configuration files, read and checked. Options have OpenStack's names; Berth's own
// are in [berth].
type Settings struct {
	Debug   bool   // [DEFAULT] debug
	LogFile string // [DEFAULT] log_file, in log_dir; "": standard error
	Host    string // [DEFAULT] host: the hypervisor hostname; default: the name of the machine
	Auth    string // [api] auth_strategy: noauth2, http_basic or keystone; "": not set
	AuthAt  string // place of auth_strategy, for errors
	Rules   pci.Rules
	Aliases pci.Aliases

	ReportInPlacement bool     // [pci] report_in_placement
	ReportNetwork     bool     // [berth] report_network_devices
	PCIInPlacement    bool     // [filter_scheduler] pci_in_placement
	ResizeToSameHost  bool     // [DEFAULT] allow_resize_to_same_host
	IgnoredProperties []string // [berth] ignored_properties

	PlacementDB string // [placement_database] connection: an SQLAlchemy URL; "": not set
	ComputeDB   string // [database] connection: compute's own tables; "": not set
	NetworkDB   string // [network_database] connection; "": not set

	Placement  PlacementSettings
	Compute    ComputeSettings
	Network    NetworkSettings
	Images     ImageSettings
	ImageStore ImageStoreSettings
	Accounts   AccountSettings
	TLS        TLSSettings
	Bandwidth  BandwidthSettings
	PowerVM    PowerVMSettings
	Libvirt    LibvirtSettings

	Sysfs        string              // [berth] sysfs: a directory shaped like /sys, or a captured machine (.txtar)
	Capacity     hypervisor.Capacity // [berth] fake_vcpus, fake_memory_mb, fake_disk_gb
	Rescan       time.Duration       // [berth] rescan_interval, seconds in the file
	PortInterval time.Duration       // [berth] port_interval, seconds in the file
	HostSettings HostSettings

	LockPath string // [oslo_concurrency] lock_path: directory of the locks that allow one agent for each host name

	Connections httpserver.ConnLimits // [berth] max_connections, max_connections_per_address: of each API
	Silence     time.Duration         // [DEFAULT] service_down_time: until a host without signs of life counts as silent
	RequestTime time.Duration         // [berth] request_timeout, seconds in the file: until a response begins; 0: no limit

	OTLPEndpoint string // [berth] otlp_endpoint, or OTEL_EXPORTER_OTLP_ENDPOINT; "": no spans are exported

	cfg      *config.Config
	files    []string
	unknown  []config.Entry // options that Berth does not know
	warnings []string       // about deprecated options and odd values
}

// warn adds a warning about an entry.
func (s *Settings) warn(e config.Entry, sentence string) {
	s.warnings = append(s.warnings, fmt.Sprintf("%s: [%s] %s: %s", e.Place(), e.Group, e.Option, sentence))
}

// PlacementSettings are the options of Placement except its database: [placement], [cors], [oslo_policy] and others.
type PlacementSettings struct {
	Randomize         bool   // [placement] randomize_allocation_candidates
	BreadthFirst      bool   // [placement] allocation_candidates_generation_strategy
	MaxCandidates     int    // [placement] max_allocation_candidates; -1: all
	ClaimRetries      int    // [placement] allocation_conflict_retry_count: attempts for one claim; 0 means 1
	IncompleteProject string // [placement] incomplete_consumer_project_id
	IncompleteUser    string // [placement] incomplete_consumer_user_id
	CORS              cors.Options
	ProxyHeaders      bool // [oslo_middleware] enable_proxy_headers_parsing
	Policy            *policy.Enforcer
	policyErr         error         // why the policy for callers from Keystone could not be read
	IndexRefresh      time.Duration // [berth] index_refresh_interval, seconds in the file
	IndexMaxAge       time.Duration // [berth] index_max_age, seconds in the file; 0: any age
}

// ComputeSettings are the options of compute's HTTP API: [cors], [oslo_middleware] and [oslo_policy].
type ComputeSettings struct {
	CORS         cors.Options
	ProxyHeaders bool // [oslo_middleware] enable_proxy_headers_parsing
	Policy       *policy.Enforcer
}

// ImageSettings are the options of [glance]: how compute calls the image service.
type ImageSettings struct {
	At      string // place of the first option; "": [glance] is not configured and images are not looked up
	Service image.Options
	Calls   identity.ServiceCalls // without an account, the token of each request is forwarded
}

// HostSettings are the options for the hypervisor, for the CPUs, memory and disk that guests may use, and for cleaning
// devices.
type HostSettings struct {
	Driver  string // [DEFAULT] compute_driver: one of Drivers; empty: not set
	NoAgent bool   // the flag --no-agent of `berth up`
	Facts   string // [berth] fact_source: one of FactSources
	CPUs    reconcile.CPUs
	Clean   string // [berth] device_clean_command: the program that cleans a device, given its address; "": none
}

// AccountSettings are the accounts of callers with http_basic, and those with which services call each other.
type AccountSettings struct {
	Basic     identity.BasicOptions // http_basic_auth_user_file, [berth] admin_users, service_users, user_projects
	Placement identity.ServiceCalls // [placement]: how compute and the agent call Placement
	Compute   identity.ServiceCalls // [compute]: how the agent calls compute
	Network   identity.ServiceCalls // [neutron]: how compute and the agent call the network service
}
