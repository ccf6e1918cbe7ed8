package settings

import (
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

var passthroughWhitelist = []config.Name{{Group: "pci", Option: "passthrough_whitelist"},
	{Group: "DEFAULT", Option: "pci_passthrough_whitelist"}}

// formerAlias is the older name of [pci] alias.
var formerAlias = config.Name{Group: "DEFAULT", Option: "pci_alias"}

// deviceOptions are the rows of the options for the devices of a host, and for the requests of flavors.
func (s *Settings) deviceOptions() config.Options {
	return config.Options{
		{Name: config.Name{Group: "pci", Option: "device_spec"}, Deprecated: passthroughWhitelist},
		{Name: config.Name{Group: "pci", Option: "alias"}, Deprecated: []config.Name{formerAlias}},
		config.Flag("pci", "report_in_placement", &s.ReportInPlacement, false),
		config.Flag("berth", "report_network_devices", &s.ReportNetwork, false),
		config.Flag("filter_scheduler", "pci_in_placement", &s.PCIInPlacement, false),
		config.Text("berth", "sysfs", &s.Sysfs, "/sys"),
		config.Text("berth", "fact_source", &s.HostSettings.Facts, "", FactSources...),
		config.Seconds("berth", "rescan_interval", &s.Rescan, 60, 1, 86400),
		config.Seconds("berth", "port_interval", &s.PortInterval, 30, 1, 3600),
	}
}

// checkDevices reads all occurrences of device_spec, and checks the sources of devices. It returns all errors.
func (s *Settings) checkDevices(cfg *config.Config, _ *slog.Logger) error {
	var wrong []error
	if s.HostSettings.Facts == "" {
		s.HostSettings.Facts = FactSources[0]
		if s.HostSettings.Driver == PowerVMDriver {
			s.HostSettings.Facts = IOSlots
		}
	}
	if e, ok := cfg.Get("berth", "sysfs"); ok {
		if _, err := OpenSysfs(s.Sysfs); err != nil {
			wrong = append(wrong, e.Fault("%s; name a directory shaped like /sys, or a captured machine", fault.TextOf(err)))
		} else if s.Sysfs, err = filepath.Abs(s.Sysfs); err != nil {
			wrong = append(wrong, e.Fault("%s", err))
		}
	}
	if e, set := cfg.Get("berth", "report_network_devices"); set && s.ReportNetwork && !s.ReportInPlacement {
		wrong = append(wrong, e.Fault("needs [pci] report_in_placement = true; switch that on too"))
	}
	for _, e := range cfg.All("pci", "device_spec", passthroughWhitelist...) {
		if e.Option != "device_spec" {
			s.warn(e, "deprecated name; use [pci] device_spec")
		}
		if err := e.Check(); err != nil {
			wrong = append(wrong, err)
			continue
		}
		rules, err := pci.ParseSpecs(e.Value)
		if err != nil {
			wrong = append(wrong, e.Fault("%s", fault.TextOf(err)))
			continue
		}
		for i := range rules {
			rules[i].At = e.Place()
		}
		s.Rules = append(s.Rules, rules...)
	}
	return errors.Join(wrong...)
}
