package settings

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/nftables"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/fault"
)

// SlotsConfigured reports whether configuration files select PowerVM's I/O slots as the host's devices.
func SlotsConfigured(files ...string) bool {
	s, _, err := readAll(slog.New(slog.DiscardHandler), files...)
	return err == nil && s.HostSettings.Facts == IOSlots
}

// Check reads configuration files and checks them on a machine: the one at path, or [berth] sysfs if path is empty. It
// sends no request to Placement. Errors in the configuration are findings; an error is returned if the files or the
// machine cannot be read.
func Check(path string, files ...string) (CheckReport, error) {
	s, faults, err := readAll(slog.New(slog.DiscardHandler), files...)
	if err != nil {
		return CheckReport{}, err
	}
	if path != "" {
		s.Sysfs = path
	} else if s.Sysfs == "" { // a wrong value is among the faults
		s.Sysfs = "/sys"
	}
	c := CheckReport{Host: s.Host, Sysfs: s.Sysfs, Report: s.ReportInPlacement, Findings: []Finding{},
		Devices: []CheckedDevice{}, Bandwidth: []CheckedProvider{}}
	for _, wrong := range faults {
		c.add(LevelError, fault.TextOf(wrong))
	}
	if s.HostSettings.Driver == "" && len(files) > 0 && len(faults) == 0 {
		c.add(LevelError, NoDriver)
	}
	machine, err := readMachine(s)
	if err != nil {
		return CheckReport{}, err
	}
	verdicts, wrong, notes := survey.Verdicts(survey.Facts{Host: s.Host, Devices: machine.Devices, Rules: s.Rules,
		Report: s.ReportInPlacement, ReportNetwork: s.ReportNetwork, VFIO: s.HostSettings.VFIO()})
	for _, sentence := range wrong {
		c.add(LevelError, sentence)
	}
	s.warnUnknown()
	for _, sentence := range s.warnings {
		c.add(LevelWarning, sentence)
	}
	for _, f := range s.Rules.Judge(machine.Devices) {
		if !f.Wrong { // errors are among the verdicts
			c.add(LevelWarning, f.Sentence)
		}
	}
	for _, sentence := range s.HostSettings.CPUs.Warnings(machine, s.Capacity) {
		c.add(LevelWarning, sentence)
	}
	for _, p := range machine.Problems {
		c.add(LevelWarning, p.String())
	}
	for _, note := range append(notes, survey.SplitGroups(verdicts)...) {
		c.add(LevelWarning, note.String())
	}
	if s.LinuxBridges.Configured() && s.Sysfs == "/sys" {
		for _, sentence := range nftables.Warnings(context.Background()) {
			c.add(LevelWarning, sentence)
		}
	}
	if s.Sysfs == "/sys" {
		c.checkMoves(context.Background(), &s)
	}
	if sentence := s.Unreported(); sentence != "" && s.ofAgentAlone() {
		c.add(LevelWarning, sentence)
	}
	c.checkBandwidth(s, machine)
	c.checkBridges(s)
	for _, v := range verdicts {
		c.Devices = append(c.Devices, checkedDevice(v))
	}
	return c, nil
}

// warnUnknown adds a warning for each unknown option of the groups that configure devices. Options of other groups are
// only counted, because a nova.conf has many that Berth does not use.
func (s *Settings) warnUnknown() {
	others := 0
	for _, e := range s.unknown {
		if slices.Contains([]string{"pci", "filter_scheduler", "berth"}, strings.ToLower(e.Group)) {
			s.warn(e, unknownOption+suggestion(e))
		} else if hint := suggestion(e); hint != "" {
			s.warn(e, unknownOption+hint)
		} else {
			others++
		}
	}
	if others > 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("%d options of other groups are ignored, because Berth does not "+
			"know them", others))
	}
}

// Errors counts the findings that are errors.
func (c CheckReport) Errors() int { return c.count(LevelError) }

// Warnings counts the findings that are warnings.
func (c CheckReport) Warnings() int { return c.count(LevelWarning) }

func (c CheckReport) count(level string) (n int) {
	for _, f := range c.Findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// readMachine reads a machine in the same way as the agent.
func readMachine(s Settings) (facts.Facts, error) {
	fsys, err := OpenSysfs(s.Sysfs)
	if err != nil {
		return facts.Facts{}, err
	}
	machine, err := sysfs.Read(fsys)
	if err != nil {
		return machine, machineFault(s.Sysfs, err)
	}
	sysfs.ReadSerials(&machine, fsys, s.Rules.NeedSerial)
	return machine, nil
}

func checkedDevice(v survey.Verdict) CheckedDevice {
	d := CheckedDevice{Address: v.Device.Address.String(), VendorID: v.Device.Vendor, ProductID: v.Device.Product,
		Type:     string(v.Device.Type),
		NUMANode: v.Device.NUMANode, Offered: v.Offered, Reported: v.Reported, Why: v.Why}
	if v.Device.Parent != nil {
		d.Parent = v.Device.Parent.String()
	}
	if v.Entry != nil {
		d.Entry = fmt.Sprintf("%s, %s", v.Entry.At, v.Entry)
	}
	if v.Reported {
		d.Provider, d.ResourceClass = v.Offer.Name, string(v.Offer.ResourceClass)
		d.Traits = []string{string(survey.ManagedPCI), string(survey.OwnerNova)}
		for _, t := range v.Offer.Traits {
			d.Traits = append(d.Traits, string(t))
		}
		slices.Sort(d.Traits)
	}
	return d
}

// machineFault adds the path of the machine to an error; packages that read a machine know only paths below it.
func machineFault(path string, err error) error {
	return fault.New(fault.KindOf(err), "%s: %s; let this user read it, or run the command as root",
		path, fault.TextOf(err))
}
