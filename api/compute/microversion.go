package compute

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
)

// The headers with which a client requests a microversion and a service returns the one that it used.
const (
	Service             = "compute" // the service type inside VersionHeader
	VersionHeader       = "OpenStack-API-Version"
	LegacyVersionHeader = "X-OpenStack-Nova-API-Version"
)

// Version is a microversion of the API, by its second number: the first is always 2.
type Version int

// The range that Berth implements.
const (
	Min Version = 1
	Max Version = 104
)

// The versions that change something on the implemented paths; Effects describes the changes.
const (
	KeyPairType        Version = 2
	ExtendedAttributes Version = 3
	RemoteConsoles     Version = 6
	MKSConsoles        Version = 8
	Locked             Version = 9
	KeyPairUser        Version = 10
	ForceDown          Version = 11
	ServerGroupOwner   Version = 13
	NoSharedStorage    Version = 14
	SoftPolicies       Version = 15
	HostStatus         Version = 16
	CrashDump          Version = 17
	ServerDescription  Version = 19
	DeletedActions     Version = 21
	ForceMigration     Version = 22
	ServerMigrations   Version = 23
	AbortMigration     Version = 24
	LiveMigrateAuto    Version = 25
	Tags               Version = 26
	CPUInfoObject      Version = 28
	EvacuateForce      Version = 29
	LiveMigrateForce   Version = 30
	ConsoleTokens      Version = 31
	HypervisorPages    Version = 33
	KeyPairPages       Version = 35
	NoNetworkProxy     Version = 36
	NetworksRequired   Version = 37
	StatusChecked      Version = 38
	NoImageProxy       Version = 39
	UsagePages         Version = 40
	AggregateUUID      Version = 41
	NoHosts            Version = 43
	ImageIDInBody      Version = 45
	EmbeddedFlavor     Version = 47
	QuotaClassGroups   Version = 50
	ActionEvents       Version = 51
	TagsAtCreation     Version = 52
	ServiceUUID        Version = 53
	RebuildKeyPair     Version = 54
	FlavorDescription  Version = 55
	ColdMigrateHost    Version = 56
	NoPersonality      Version = 57
	ActionPages        Version = 58
	MigrationUUID      Version = 59
	ExtraSpecsInFlavor Version = 61
	ActionHost         Version = 62
	TrustedImages      Version = 63
	GroupPolicyRules   Version = 64
	AbortQueuedMove    Version = 65
	ChangesBefore      Version = 66
	VolumeType         Version = 67
	NoForcedMoves      Version = 68
	DownCells          Version = 69
	DeviceTagsShown    Version = 70
	ServerGroupsShown  Version = 71
	PortsWithRequest   Version = 72
	LockReason         Version = 73
	HostAtCreation     Version = 74
	StrictRequests     Version = 75
	PowerUpdate        Version = 76
	UnshelveZone       Version = 77
	Topology           Version = 78
	DeleteVolume       Version = 79
	MigrationOwner     Version = 80
	AggregateImages    Version = 81
	AcceleratorBound   Version = 82
	FiltersForUsers    Version = 83
	EventDetails       Version = 84
	ChangeDeleteVolume Version = 85
	ExtraSpecsChecked  Version = 86
	RescueVolume       Version = 87
	HypervisorUptime   Version = 88
	VolumeMappingShown Version = 89
	Hostname           Version = 90
	UnshelveHost       Version = 91
	KeyPairImport      Version = 92
	RebuildVolume      Version = 93
	HostnameFQDN       Version = 94
	EvacuateStopped    Version = 95
	PinnedZone         Version = 96
	Shares             Version = 97
	ImageProperties    Version = 98
	SpiceDirect        Version = 99
	HintsShown         Version = 100
	AttachVolumeAsync  Version = 101
	FlavorName         Version = 102
	NoVolumesBoot      Version = 103
	PinZone            Version = 104
)

// Effect is one line of the table of microversions.
type Effect struct {
	Version Version
	Text    string
}

// Effects lists what each microversion changes on the paths that Berth serves, oldest first.
func Effects() []Effect {
	return []Effect{
		{KeyPairType, "key pairs have a type; creating one answers 201, deleting one 204"},
		{ExtendedAttributes, "servers show OS-EXT-SRV-ATTR:hostname, reservation_id, launch_index, … (admins)"},
		{RemoteConsoles, "POST /servers/{id}/remote-consoles opens consoles, and the actions os-get…Console are gone"},
		{MKSConsoles, "the protocol mks, which Berth does not have"},
		{Locked, "servers show locked"},
		{KeyPairUser, "key pairs of another user: user_id (admins)"},
		{ForceDown, "services show forced_down, which PUT /os-services/force-down changes"},
		{ServerGroupOwner, "server groups show their project_id and user_id"},
		{NoSharedStorage, "evacuate has no onSharedStorage, and answers without adminPass"},
		{SoftPolicies, "server groups may have the policies soft-affinity and soft-anti-affinity"},
		{HostStatus, "servers show host_status (admins)"},
		{CrashDump, "servers have the action trigger_crash_dump"},
		{ServerDescription, "servers have a description"},
		{DeletedActions, "GET /servers/{id}/os-instance-actions also of deleted servers"},
		{ForceMigration, "a live migration can be forced to complete (force_complete)"},
		{ServerMigrations, "GET /servers/{id}/migrations; migrations show their migration_type"},
		{AbortMigration, "a running live migration can be aborted"},
		{LiveMigrateAuto, "os-migrateLive has no disk_over_commit"},
		{Tags, "servers show tags, which /servers/{id}/tags changes; lists filter by them"},
		{CPUInfoObject, "hypervisors show cpu_info as an object, not as a text"},
		{EvacuateForce, "evacuate may name a host, which is checked like any other"},
		{LiveMigrateForce, "os-migrateLive may name a host, which is checked like any other"},
		{ConsoleTokens, "GET /os-console-auth-tokens/{token} shows tokens of all types of consoles"},
		{HypervisorPages, "lists of hypervisors have pages"},
		{KeyPairPages, "lists of key pairs have pages"},
		{NoNetworkProxy, "quotas and limits have no floating IPs, fixed IPs and security groups"},
		{NetworksRequired, "creating a server requires networks: none or auto"},
		{StatusChecked, "an unknown status in the filter of a list is an error, not an empty list"},
		{NoImageProxy, "limits have no maxImageMeta"},
		{UsagePages, "usage has pages"},
		{AggregateUUID, "aggregates show their uuid"},
		{NoHosts, "/os-hosts is gone"},
		{ImageIDInBody, "createImage and createBackup answer with the image_id in a body, without Location"},
		{EmbeddedFlavor, "servers show their flavor's values as they were at creation, not its id"},
		{QuotaClassGroups, "quota classes have server groups, and no floating IPs, fixed IPs and security groups"},
		{ActionEvents, "os-instance-actions show the events of an action to all, not only to admins"},
		{TagsAtCreation, "creating a server may set tags"},
		{ServiceUUID, "services and hypervisors have UUIDs; PUT /os-services/{id} changes forced_down"},
		{RebuildKeyPair, "a rebuild may change key_name"},
		{FlavorDescription, "flavors have a description, which PUT changes"},
		{ColdMigrateHost, "migrate may name a host"},
		{NoPersonality, "no personality in requests, quotas and limits; a rebuild may change user_data"},
		{ActionPages, "os-instance-actions have pages, updated_at and the filter changes-since"},
		{MigrationUUID, "migrations show their uuid"},
		{ExtraSpecsInFlavor, "flavors show their extra_specs"},
		{TrustedImages, "servers show trusted_image_certificates, which is null"},
		{AbortQueuedMove, "a live migration that does not run yet can be aborted"},
		{NoForcedMoves, "evacuate and os-migrateLive have no force"},
		{DeviceTagsShown, "ports of servers show their tag"},
		{ServerGroupsShown, "a server shows server_groups, except in lists"},
		{PortsWithRequest, "servers with ports that have a resource request are created and moved"},
		{LockReason, "servers show locked_reason"},
		{StrictRequests, "PUT and rebuild answer as GET does; an empty swap is 0; hypervisors always show servers"},
		{MigrationOwner, "migrations show user_id and project_id"},
		{ExtraSpecsChecked, "values of known extra specs are checked when they are set"},
		{HypervisorUptime, "hypervisors show uptime and no amounts; no …/uptime and no …/statistics"},
		{Hostname, "servers show OS-EXT-SRV-ATTR:hostname to all; creation, PUT and rebuild have hostname"},
		{KeyPairImport, "key pairs are not generated; their names may have @ and ."},
		{HostnameFQDN, "hostname may have several labels"},
		{EvacuateStopped, "evacuate does not start the server"},
		{PinnedZone, "servers show pinned_availability_zone"},
		{ImageProperties, "servers show the properties of their image"},
		{HintsShown, "servers show scheduler_hints"},
		{FlavorName, "GET /flavors filters by name; flavors have no rxtx_factor and OS-FLV-DISABLED:disabled"},
		{PinZone, "PUT may change pinned_availability_zone"},
	}
}

// String formats the version as in the headers: "2.61".
func (v Version) String() string { return "2." + strconv.Itoa(int(v)) }

// Has reports whether this version has the effect that was introduced with since.
func (v Version) Has(since Version) bool { return v >= since }

// NotServed is the code of the fault that Negotiate returns for a version outside of Min to Max: 406 at the edge.
const NotServed = "berth.version_not_served"

var versionText = regexp.MustCompile(`^([1-9]\d{0,8})\.(0|[1-9]\d{0,8})$`)

// Negotiate returns the microversion that a request asks for; Min if it asks for none. OpenStack-API-Version takes
// precedence over the older header. It returns fault.Invalid for a malformed version, and fault.Invalid with the code
// NotServed for a version that Berth does not implement.
func Negotiate(h http.Header) (Version, error) {
	text := requestedVersion(h)
	switch text {
	case "":
		return Min, nil
	case "latest":
		return Max, nil
	}
	m := versionText.FindStringSubmatch(text)
	if m == nil {
		return Min, fault.New(fault.Invalid, "%q is not a valid API version; "+
			"write it as MajorNum.MinorNum, for example %s, or latest", text, Max)
	}
	major, _ := strconv.Atoi(m[1]) // at most nine digits: never out of range
	minor, _ := strconv.Atoi(m[2])
	v := Version(minor)
	if major != 2 || v < Min || v > Max {
		return Min, fault.New(fault.Invalid, "Version %s is not supported by the API. "+
			"Minimum is %s and maximum is %s.", text, Min, Max).WithCode(NotServed)
	}
	return v, nil
}

// requestedVersion returns the text of the version in the headers. OpenStack-API-Version may have versions for other
// services too, separated by commas or in separate headers; the last one for compute counts.
func requestedVersion(h http.Header) string {
	found := ""
	for _, line := range h.Values(VersionHeader) {
		for part := range strings.SplitSeq(line, ",") {
			fields := strings.Fields(part)
			if len(fields) == 2 && strings.EqualFold(fields[0], Service) {
				found = strings.ToLower(fields[1])
			}
		}
	}
	if found == "" {
		found = strings.ToLower(strings.TrimSpace(h.Get(LegacyVersionHeader)))
	}
	return found
}
