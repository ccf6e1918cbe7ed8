package settings

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/pci"
)

// table returns a row for each option that Berth reads. Each file of this package has the rows of its options, and the
// checks that need more than one value.
func (s *Settings) table() config.Options {
	return slices.Concat(s.generalOptions(), s.auditOptions(), s.connectionOptions(), s.accountOptions(),
		s.tlsOptions(), s.policyOptions(),
		s.placementOptions(), s.computeQuotaOptions(), s.networkOptions(), s.deviceOptions(), s.bandwidthOptions(),
		s.bridgeOptions(),
		s.hostOptions(), s.libvirtOptions(), s.powerVMOptions(), s.imageOptions())
}

// Read reads the configuration files. A wrong value is a fault of kind Invalid that names the file, line, option and
// text. Read logs a warning for each unknown or deprecated option.
func Read(log *slog.Logger, files ...string) (Settings, error) {
	s, faults, err := readAll(log, files...)
	if err == nil && len(faults) > 0 {
		err = faults[0]
	}
	if err != nil {
		return Settings{}, err
	}
	for _, e := range s.unknown {
		s.warn(e, unknownOption+suggestion(e))
	}
	for _, warning := range s.warnings {
		log.Warn(warning)
	}
	return s, nil
}

// Warnings returns what Read has logged of the files: a sentence for each option that is unknown, deprecated or odd,
// with its place.
func (s *Settings) Warnings() []string { return slices.Clone(s.warnings) }

// readAll is Read, but returns all faults. err is not nil if the files cannot be read.
func readAll(log *slog.Logger, files ...string) (s Settings, faults []error, err error) {
	cfg, err := config.Load(files...)
	if err != nil {
		return s, nil, err
	}
	s = Settings{cfg: cfg, files: files, Times: times}
	table := s.table()
	s.unknown = cfg.Unknown(table.Names())
	faults = cfg.Read(table)
	for _, check := range []func(*config.Config, *slog.Logger) error{s.checkGeneral, s.checkDevices, s.readAliases,
		s.checkPlacement, s.readAccounts, s.checkConnections, s.checkHost, s.checkLibvirt, s.checkTLS, s.readBandwidth,
		s.checkBridges,
		s.checkQuota, s.checkNetwork, s.readGlance, s.readImports, s.readPolicies} {
		err := check(cfg, log)
		if all, several := err.(interface{ Unwrap() []error }); several {
			faults = append(faults, all.Unwrap()...)
		} else if err != nil {
			faults = append(faults, err)
		}
	}
	return s, faults, nil
}

// known lists the names of all options that Berth reads.
func known() []config.Name { return (&Settings{}).table().Names() }

const unknownOption = "Berth does not know this option and ignores it"

// foreignGroups are groups in which a nova.conf has many options that Berth does not use. A similar name there is
// another option, and no spelling mistake.
var foreignGroups = []string{libvirtGroup, neutronGroup}

// suggestion returns a hint which option an unknown one may mean: one of its group with a similar name, or the same
// name in a group that configures devices.
func suggestion(e config.Entry) string {
	var near []string
	for _, known := range known() {
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
