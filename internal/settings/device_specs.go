package settings

import (
	"errors"
	"log/slog"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

var passthroughWhitelist = []config.Name{{Group: "pci", Option: "passthrough_whitelist"},
	{Group: "DEFAULT", Option: "pci_passthrough_whitelist"}}

// readSpecs reads all occurrences of device_spec. It returns the errors of all wrong ones.
func (s *Settings) readSpecs(cfg *config.Config, _ *slog.Logger) (err error) {
	var wrong []error
	if s.ReportInPlacement, err = cfg.Bool("pci", "report_in_placement", false); err != nil {
		wrong = append(wrong, err)
	}
	if s.ReportNetwork, err = cfg.Bool("berth", "report_network_devices", false); err != nil {
		wrong = append(wrong, err)
	} else if e, set := cfg.Get("berth", "report_network_devices"); set && s.ReportNetwork && !s.ReportInPlacement {
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
