package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// Unreported returns why the network service does not know the mappings of this host, or "". It knows those in Berth's
// own files only from this agent, which needs [neutron]. A process that has its own network service, as berth up, does
// not need it.
func (s Settings) Unreported() string {
	own := slices.Clone(s.Bandwidth.Own)
	if s.LinuxBridges.Configured() {
		own = append(own, "[linux_bridge] or [vxlan]")
	}
	if len(own) == 0 || s.Accounts.Network.Named() {
		return ""
	}
	return strings.Join(own, " and ") + ": the network service does not learn this, so it binds no port to " +
		"this host, because [neutron] names none; set [neutron] endpoint_override, or auth_type with an account of Keystone"
}

// ofAgentAlone reports whether the configuration names services that an agent alone calls. That of berth up does not.
func (s Settings) ofAgentAlone() bool {
	a := s.Accounts
	return a.Placement.Named() || a.Compute.Named()
}

// prohibitList is the option of a mechanism driver with the vnic types that it must not bind.
const prohibitList = "vnic_type_prohibit_list"

// tunnelledName is the default of [ml2] tunnelled_network_rp_name.
const tunnelledName = "rp_tunnelled"

// agentTypes are the agent types that Neutron's files configure. OVN has no file on a host.
var agentTypes = []bandwidth.AgentType{bandwidth.OpenVSwitch, bandwidth.NICSwitch}

// bandwidthOptions are the rows of BandwidthSettings.
func (s *Settings) bandwidthOptions() config.Options {
	table := config.Options{config.Flag("berth", "report_bandwidth", &s.Bandwidth.Report, true)}
	table = append(table, config.Elsewhere("berth", "neutron_config_files")...)
	table = append(table, config.Elsewhere("ml2", "tunnelled_network_rp_name")...)
	for _, agent := range agentTypes {
		table = append(table, config.Elsewhere(agent.DriverSection(), prohibitList)...)
		for _, option := range agent.Options() {
			table = append(table, config.Elsewhere(agent.Section(), string(option))...)
		}
	}
	return table
}

// readBandwidth reads Neutron's options from [berth] neutron_config_files and from the agent's own files, which have
// priority. It returns all errors. Without report_bandwidth the errors are warnings.
func (s *Settings) readBandwidth(cfg *config.Config, _ *slog.Logger) (err error) {
	files, err := neutronFiles(cfg)
	if err != nil {
		return err
	}
	both := cfg
	if len(files) > 0 {
		if both, err = config.Load(slices.Concat(files, s.files)...); err != nil {
			entry, _ := cfg.Get("berth", "neutron_config_files")
			return entry.Fault("%s; correct the list or the file", fault.TextOf(err))
		}
		s.warnMisspelled(both)
	}
	r := bandwidthReader{cfg: both, host: s.Host}
	for _, agent := range agentTypes {
		if a, configured := r.agent(agent); configured {
			s.Bandwidth.Agents = append(s.Bandwidth.Agents, a)
			if _, own := cfg.Get(agent.Section(), string(agent.MappingsOption())); own {
				s.Bandwidth.Own = append(s.Bandwidth.Own, a.Where(agent.MappingsOption()))
			}
			for _, sentence := range a.Warnings() {
				s.warnings = append(s.warnings, sentence)
			}
		}
	}
	s.warnings = append(s.warnings, bandwidth.Overlaps(s.Bandwidth.Agents)...)
	if s.Bandwidth.Report {
		return errors.Join(r.wrong...)
	}
	for _, err := range r.wrong {
		s.warnings = append(s.warnings, fault.TextOf(err))
	}
	return nil
}

// neutronFiles returns the files of [berth] neutron_config_files. An element may be a pattern such as *.ini, whose
// files are in alphabetical order.
func neutronFiles(cfg *config.Config) ([]string, error) {
	patterns, err := cfg.Strings("berth", "neutron_config_files", nil)
	if err != nil {
		return nil, err
	}
	entry, _ := cfg.Get("berth", "neutron_config_files")
	var files []string
	for _, pattern := range patterns {
		if !filepath.IsAbs(pattern) {
			return nil, entry.Fault("%q is not an absolute path; write one such as /etc/neutron/plugins/ml2/*.ini", pattern)
		}
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, entry.Fault("%q is not a valid pattern; write a path or a pattern such as "+
				"/etc/neutron/plugins/ml2/*.ini", pattern)
		}
		if len(found) == 0 {
			return nil, entry.Fault("there is no file %s; correct the path, or let this user read its directory", pattern)
		}
		files = append(files, found...)
	}
	return files, nil
}

// warnMisspelled adds a warning for options of Neutron's sections that begin like those about providers and that
// neither Neutron nor Berth reads.
func (s *Settings) warnMisspelled(cfg *config.Config) {
	for _, e := range cfg.Unknown(known()) {
		ours := slices.ContainsFunc(agentTypes, func(a bandwidth.AgentType) bool {
			return strings.EqualFold(e.Group, a.Section())
		})
		if ours && strings.HasPrefix(e.Option, "resource_provider_") {
			s.warn(e, unknownOption+suggestion(e))
		}
	}
}

// bandwidthReader reads the options of agents and collects the errors.
type bandwidthReader struct {
	cfg   *config.Config
	host  string
	wrong []error
}

// agent reads the options of one agent type. configured is false when the files set none of its section.
func (r *bandwidthReader) agent(agent bandwidth.AgentType) (a bandwidth.Agent, configured bool) {
	configured = slices.ContainsFunc(agent.Options(), func(o bandwidth.Option) bool {
		e, set := r.cfg.Get(agent.Section(), string(o))
		return set && strings.TrimSpace(e.Value) != ""
	})
	if !configured {
		return a, false
	}
	before := len(r.wrong)
	a = bandwidth.Agent{Type: agent, DefaultHypervisor: r.text(agent.Section(), bandwidth.DefaultHypervisorOption, r.host)}
	a.At = map[bandwidth.Option]string{}
	for _, option := range agent.Options() {
		if e, set := r.cfg.Get(agent.Section(), string(option)); set {
			a.At[option] = e.Place()
		}
	}
	a.Mappings = elements(r, agent, agent.MappingsOption(), func(list []string) ([]bandwidth.Mapping, []error) {
		return bandwidth.ParseMappings(list, agent == bandwidth.OpenVSwitch)
	})
	a.Bandwidths = elements(r, agent, bandwidth.BandwidthsOption, bandwidth.ParseBandwidths)
	a.Hypervisors = elements(r, agent, bandwidth.HypervisorsOption, bandwidth.ParseHypervisors)
	a.Defaults = r.defaults(agent, bandwidth.DefaultsOption)
	if agent == bandwidth.OpenVSwitch {
		a.Tunnelled = r.text("ml2", "tunnelled_network_rp_name", tunnelledName)
		host := a.DefaultHypervisor
		a.PacketRates = elements(r, agent, bandwidth.PacketRatesOption,
			func(list []string) (map[string]bandwidth.Rate, []error) {
				return bandwidth.ParsePacketRates(list, host)
			})
		a.DirectedRates = elements(r, agent, bandwidth.DirectedRatesOption,
			func(list []string) (map[string]bandwidth.Rates, []error) {
				return bandwidth.ParseDirectedPacketRates(list, host)
			})
		a.PacketDefaults = r.defaults(agent, bandwidth.PacketDefaultsOption)
	}
	a.VNICTypes = r.vnicTypes(agent)
	if len(r.wrong) == before { // otherwise an error here may follow from one above
		for _, wrong := range a.Check() {
			r.add(agent.Section(), string(wrong.Option), wrong.Sentence)
		}
	}
	return a, true
}

// text reads an option that is not a list. An empty value is def.
func (r *bandwidthReader) text(group string, option bandwidth.Option, def string) string {
	value, err := r.cfg.String(group, string(option), "", nil)
	if err != nil {
		r.wrong = append(r.wrong, err)
	}
	if value = strings.TrimSpace(value); value == "" {
		return def
	}
	return value
}

// defaults reads inventory defaults. An option that is not set has the built-in ones.
func (r *bandwidthReader) defaults(agent bandwidth.AgentType, option bandwidth.Option) bandwidth.InventoryDefaults {
	if _, set := r.cfg.Get(agent.Section(), string(option)); !set {
		return bandwidth.BuiltInDefaults()
	}
	return elements(r, agent, option, bandwidth.ParseInventoryDefaults)
}

// vnicTypes returns the vnic types of an agent without those that its mechanism driver prohibits.
func (r *bandwidthReader) vnicTypes(agent bandwidth.AgentType) []string {
	prohibited, err := r.cfg.Strings(agent.DriverSection(), prohibitList, nil)
	if err != nil {
		r.wrong = append(r.wrong, err)
	}
	types, wrong := bandwidth.ParseVNICTypes(agent, prohibited)
	for _, err := range wrong {
		r.add(agent.DriverSection(), prohibitList, fault.TextOf(err))
	}
	return types
}

// elements reads a list option of an agent with a parser of its elements.
func elements[T any](r *bandwidthReader, agent bandwidth.AgentType, option bandwidth.Option,
	parse func([]string) (T, []error)) T {
	list, err := r.cfg.Strings(agent.Section(), string(option), nil)
	if err != nil {
		r.wrong = append(r.wrong, err)
		list = nil
	}
	value, wrong := parse(list)
	for _, err := range wrong {
		r.add(agent.Section(), string(option), fault.TextOf(err))
	}
	return value
}

// add adds an error about an option, with its place if a file sets it.
func (r *bandwidthReader) add(group, option, sentence string) {
	if e, set := r.cfg.Get(group, option); set {
		r.wrong = append(r.wrong, e.Fault("%s", sentence))
		return
	}
	r.wrong = append(r.wrong, fault.New(fault.Invalid, "%s",
		fmt.Sprintf("[%s] %s: %s", group, option, sentence)))
}
