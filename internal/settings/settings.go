// Package settings reads and checks the configuration files of all services: options of Placement, compute and the
// agent under OpenStack's names, and Berth's own options in [berth]. It starts nothing.
package settings

import (
	"fmt"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/powervm/restclient"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/image/webdownload"
	"github.com/openberth/berth/internal/httpserver"
	"github.com/openberth/berth/pci"
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

	ReportInPlacement bool          // [pci] report_in_placement
	ReportNetwork     bool          // [berth] report_network_devices
	PCIInPlacement    bool          // [filter_scheduler] pci_in_placement
	ReclaimInterval   time.Duration // [DEFAULT] reclaim_instance_interval; 0: a deleted server cannot be restored
	OffloadTime       time.Duration // [DEFAULT] shelved_offload_time; below 0: never
	ResizeToSameHost  bool          // [DEFAULT] allow_resize_to_same_host
	DefaultZone       string        // [DEFAULT] default_availability_zone
	ScheduleZone      string        // [DEFAULT] default_schedule_zone
	InstancePassword  bool          // [api] enable_instance_password
	PortsNeedVersion  bool          // [compute] ports_need_microversion
	IgnoredProperties []string      // [berth] ignored_properties

	PlacementDB string // [placement_database] connection: an SQLAlchemy URL; "": not set
	ComputeDB   string // [database] connection: compute's own tables; "": not set
	NetworkDB   string // [network_database] connection; "": not set

	Placement    PlacementSettings
	Compute      ComputeSettings
	Quota        QuotaSettings
	Network      NetworkSettings
	Images       ImageSettings
	ImageStore   ImageStoreSettings
	Accounts     AccountSettings
	TLS          TLSSettings
	Bandwidth    BandwidthSettings
	LinuxBridges BridgeSettings
	PowerVM      PowerVMSettings
	Libvirt      LibvirtSettings
	Consoles     ConsoleSettings

	Sysfs        string              // [berth] sysfs: a directory shaped like /sys, or a captured machine (.txtar)
	Capacity     hypervisor.Capacity // [berth] fake_vcpus, fake_memory_mb, fake_disk_gb
	Rescan       time.Duration       // [berth] rescan_interval, seconds in the file
	PortInterval time.Duration       // [berth] port_interval, seconds in the file
	HostSettings HostSettings

	ProxyHeaders bool // [oslo_middleware] enable_proxy_headers_parsing

	LockPath string // [oslo_concurrency] lock_path: directory of the locks that allow one agent for each host name

	Connections httpserver.ConnLimits // [berth] max_connections, max_connections_per_address: of each API
	Silence     time.Duration         // [DEFAULT] service_down_time: until a host without signs of life counts as silent
	RequestTime time.Duration         // [berth] request_timeout, seconds in the file: until a response begins; 0: no limit

	OTLPEndpoint string // [berth] otlp_endpoint, or OTEL_EXPORTER_OTLP_ENDPOINT; "": no spans are exported
	Audit        AuditSettings

	AuditInterval time.Duration // [audit] interval, seconds in the file: between the audits of the cloud; 0: not set

	Times Times // not of a file

	raw      rawValues
	cfg      *config.Config
	files    []string
	unknown  []config.Entry // options that Berth does not know
	warnings []string       // about deprecated options and odd values
}

// rawValues are values as the files have them, from which the checks make those of Settings.
type rawValues struct {
	logDir                                   string               // [DEFAULT] log_dir
	strategy                                 string               // [placement] allocation_candidates_generation_strategy
	tunnels                                  map[string]*[][2]int // by network type
	quotas                                   map[string]*int      // by resource
	computeQuotas                            map[string]*int      // by name of the quota
	classQuotas                              quota.Amounts        // [quota] resource_classes
	reservedCPUs, reservedMB, reservedDiskMB int                  // [DEFAULT] reserved_host_…; -1: not set
	uri, scheme                              string               // [libvirt] connection_uri, live_migration_scheme
	cpuModels                                []string             // [libvirt] cpu_models
	removeImages                             bool                 // [image_cache] remove_unused_base_images
	importPorts, noImportPorts               []string             // [import_filtering_opts] …allowed_ports
}

// warn adds a warning about an entry.
func (s *Settings) warn(e config.Entry, sentence string) {
	s.warnings = append(s.warnings, fmt.Sprintf("%s: [%s] %s: %s", e.Place(), e.Group, e.Option, sentence))
}

// AuditSettings are the options of the audit log.
type AuditSettings struct {
	Driver    string // [audit_middleware_notifications] driver: noop or AuditLog
	Directory string // [berth] audit_directory; empty: the log of the service
	Days      int    // [berth] audit_days: how long files are kept; 0: forever
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
	Policy            Policy
	IndexRefresh      time.Duration // [berth] index_refresh_interval, seconds in the file
	IndexMaxAge       time.Duration // [berth] index_max_age, seconds in the file; 0: any age
	UsageHistory      bool          // [berth] usage_history
}

// ComputeSettings are the options of compute's HTTP API: [cors] and [oslo_policy].
type ComputeSettings struct {
	CORS   cors.Options
	Policy Policy
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
	CPUs    state.CPUs
	Clean   string // [berth] device_clean_command: the program that cleans a device, given its address; "": none
	Start   string // [berth] device_start_command: prepares sets of devices before a guest starts; "": none
	Health  HealthSettings
	Address string // [DEFAULT] my_ip: the address that `hypervisor list` shows; empty: that of the default route
}

// HealthSettings are the options for the health checks of devices.
type HealthSettings struct {
	Command  string        // [berth] device_health_command: given the address of a device; "": none
	Interval time.Duration // [berth] device_health_interval; 0: no checks
	Timeout  time.Duration // [berth] device_health_timeout, of Command
	AER      string        // [berth] device_health_aer: which errors count
}

// AccountSettings are the accounts of callers with http_basic, and those with which services call each other.
type AccountSettings struct {
	Basic     identity.BasicOptions // http_basic_auth_user_file, [berth] admin_users, service_users, user_projects
	Placement identity.ServiceCalls // [placement]: how compute and the agent call Placement
	Compute   identity.ServiceCalls // [compute]: how the agent calls compute
	Network   identity.ServiceCalls // [neutron]: how compute and the agent call the network service
}

// LibvirtSettings are the options of the hypervisor driver libvirt.
type LibvirtSettings struct {
	Socket    string        // from [libvirt] connection_uri; "": that of the system's libvirt
	VirtType  string        // [libvirt] virt_type: kvm or qemu; "": kvm where it works
	CPUModel  string        // [libvirt] cpu_models: the first; "": the host's
	Instances string        // [DEFAULT] instances_path
	Shutdown  time.Duration // [DEFAULT] shutdown_timeout, seconds in the file
	// Copies of images that no guest uses are removed: how often they are looked for, 0: never; and after which time.
	ImageCleanup, ImageAge time.Duration
	ImageCacheMax          int // [DEFAULT] image_cache_max_size: bytes that all copies may take; 0: no limit

	VNC bool // [vnc] enabled: guests have displays

	Migration LiveMigration
	Detaching Detaching
}

// ConsoleSettings are the options of the consoles that browsers open.
type ConsoleSettings struct {
	NoVNC    string        // [berth] novnc_directory
	XTerm    string        // [berth] xterm_directory
	TokenTTL time.Duration // [consoleauth] token_ttl, seconds in the file
}

// NetworkSettings are the options of the network service, under Neutron's names.
type NetworkSettings struct {
	Policy      Policy
	TenantTypes []string            // [ml2] tenant_network_types
	Flat        []string            // [ml2_type_flat] flat_networks
	VLANs       []VLANRange         // [ml2_type_vlan] network_vlan_ranges
	Tunnels     map[string][][2]int // [ml2_type_vxlan] vni_ranges, and those of geneve and gre, by network type
	MTU         int                 // [DEFAULT] global_physnet_mtu
	DNSDomain   string              // [DEFAULT] dns_domain
	Quotas      map[string]int      // [quotas] quota_network, quota_subnet, quota_port
}

// PowerVMSettings are the options of hosts with PowerVM NovaLink.
type PowerVMSettings struct {
	// [powervm] url, username, password, cafile, pinned_certificate, system
	Client          restclient.Options
	Files           []string // [powervm] inventory_files: later ones have priority
	PlainNames      bool     // [powervm] plain_provider_names
	ClassFromDevice bool     // [powervm] resource_class_from_device
	SlotsRequired   bool     // [powervm] slots_required
	DiskGB          int      // [powervm] disk_gb
}

// TLSSettings are the options for certificates: of the listeners, and of calls to other services. The files are read
// when they are used, because one configuration may serve several services on machines that do not have all files.
type TLSSettings struct {
	Listener  httpserver.CertificateFiles // [ssl] cert_file, key_file, ca_file; no Cert: listen without TLS
	Placement rest.TLSFiles               // [placement] cafile, certfile, keyfile, insecure
	Compute   rest.TLSFiles               // [berth] compute_cafile, compute_certfile, compute_keyfile
}

// BandwidthSettings are Neutron's options for the guaranteed bandwidth and packet rate of this host.
type BandwidthSettings struct {
	Report bool              // [berth] report_bandwidth; false: Neutron reports it
	Agents []bandwidth.Agent // agent types that the files configure; also set without Report
	// Own are the places of the options in Berth's own files that map devices to physical networks, such as "berth.conf:3:
	// [ovs] bridge_mappings". Those of [berth] neutron_config_files are of Neutron's agents, which report themselves.
	Own []string
}

// ImageStoreSettings are the options of Berth's own image service, under Glance's names.
type ImageStoreSettings struct {
	Dir     string            // [glance_store] filesystem_store_datadir; "": below the data directory
	MaxSize int               // [DEFAULT] image_size_cap, in bytes
	Quota   int64             // [DEFAULT] user_storage_quota of a project, in bytes; 0: no limit
	Images  int               // [berth] images_per_project; 0: no limit
	Methods []string          // [DEFAULT] enabled_import_methods
	Web     webdownload.Rules // [import_filtering_opts]
	Policy  Policy
}

// VLANRange is a range of VLANs of a physical network; First is 0 if the option has only the name.
type VLANRange struct {
	PhysicalNetwork string
	First, Last     int
}

// LiveMigration are the options of live migration: [libvirt] live_migration_….
type LiveMigration struct {
	URI       string        // uri: address of the libvirt of another host; %s is its Address
	Address   string        // inbound_addr: of this host, for other hosts; "": its name
	TLS       bool          // with_native_tls
	Converge  bool          // permit_auto_converge
	Bandwidth int           // bandwidth, MiB/s; 0: no limit
	Limit     time.Duration // completion_timeout, for each GiB; 0: no limit
}
