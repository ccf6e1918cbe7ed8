package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/pci"
)

// Known lists every option that Berth reads.
func Known() []config.Name {
	return append(slices.Concat(knownPlacement(), knownHost(), knownImages(), knownAccounts(), knownTLS(),
		knownBandwidth(), knownNetwork(), knownImageStore(), knownPowerVM(), knownLibvirt()), []config.Name{
		{Group: "DEFAULT", Option: "debug"}, {Group: "DEFAULT", Option: "log_file"}, {Group: "DEFAULT", Option: "log_dir"},
		{Group: "DEFAULT", Option: "host"}, {Group: "DEFAULT", Option: "service_down_time"},
		{Group: "api", Option: "auth_strategy"},
		{Group: "pci", Option: "device_spec"}, {Group: "pci", Option: "alias"}, {Group: "pci", Option: "report_in_placement"},
		{Group: "pci", Option: "passthrough_whitelist"}, {Group: "DEFAULT", Option: "pci_passthrough_whitelist"},
		{Group: "DEFAULT", Option: "pci_alias"},
		{Group: "filter_scheduler", Option: "pci_in_placement"}, {Group: "DEFAULT", Option: "allow_resize_to_same_host"},
		{Group: "berth", Option: "ignored_properties"},
		{Group: "placement_database", Option: "connection"}, {Group: "database", Option: "connection"},
		{Group: "oslo_concurrency", Option: "lock_path"},
		{Group: "berth", Option: "sysfs"}, {Group: "berth", Option: "rescan_interval"},
		{Group: "berth", Option: "port_interval"}, {Group: "berth", Option: "report_network_devices"},
		{Group: "berth", Option: "max_connections"},
		{Group: "berth", Option: "max_connections_per_address"}, {Group: "berth", Option: "request_timeout"},
		{Group: "berth", Option: "otlp_endpoint"}, {Group: "berth", Option: "fake_vcpus"},
		{Group: "berth", Option: "fake_memory_mb"},
		{Group: "berth", Option: "fake_disk_gb"},
	}...)
}

const unknownOption = "Berth does not know this option and ignores it"

// foreignGroups are groups in which a nova.conf has many options that Berth does not use. A similar name there is
// another option, and no spelling mistake.
var foreignGroups = []string{libvirtGroup, neutronGroup}

// suggestion returns a hint which option an unknown one may mean: one of its group with a similar name, or the same
// name in a group that configures devices.
func suggestion(e config.Entry) string {
	var near []string
	for _, known := range Known() {
		switch {
		case strings.EqualFold(known.Group, e.Group) && !slices.Contains(foreignGroups, known.Group):
			near = append(near, known.Option)
		case known.Option == e.Option && slices.Contains([]string{"pci", "filter_scheduler", "berth"}, known.Group):
			return fmt.Sprintf("; it belongs in [%s]", known.Group)
		}
	}
	if best := pci.Nearest(e.Option, near); best != "" && len(e.Option) > 4 { // short names are all similar
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}
