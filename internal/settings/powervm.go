package settings

import (
	"log/slog"

	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/restclient"
	"github.com/openberth/berth/agent/powervm/slotsource"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

const powerVMGroup = "powervm"

// knownPowerVM lists the options of PowerVMSettings.
func knownPowerVM() (names []config.Name) {
	for _, option := range []string{"url", "username", "password", "cafile", "pinned_certificate", "system",
		"inventory_files", "plain_provider_names", "resource_class_from_device", "slots_required", "disk_gb"} {
		names = append(names, config.Name{Group: powerVMGroup, Option: option})
	}
	return names
}

// readPowerVM reads [powervm].
func (s *Settings) readPowerVM(cfg *config.Config, _ *slog.Logger) (err error) {
	p := &s.PowerVM
	for option, to := range map[string]*string{"url": &p.Client.URL, "username": &p.Client.User,
		"password": &p.Client.Password, "cafile": &p.Client.CAFile, "pinned_certificate": &p.Client.PinFile,
		"system": &p.Client.System} {
		if *to, err = cfg.String(powerVMGroup, option, "", nil); err != nil {
			return err
		}
	}
	for option, to := range map[string]*bool{"plain_provider_names": &p.PlainNames,
		"resource_class_from_device": &p.ClassFromDevice, "slots_required": &p.SlotsRequired} {
		if *to, err = cfg.Bool(powerVMGroup, option, false); err != nil {
			return err
		}
	}
	if p.DiskGB, err = cfg.Int(powerVMGroup, "disk_gb", 4096, 1, 1<<30); err != nil {
		return err
	}
	p.Files, err = cfg.Strings(powerVMGroup, "inventory_files", []string{inventoryfile.DefaultPath})
	return err
}

// SlotSource returns the source of the host's I/O slots. The fault is Invalid for options that can never work.
func (s Settings) SlotSource(log *slog.Logger) (*slotsource.Source, error) {
	systems, err := s.systems("", log)
	return slotsource.New(slotsource.Options{Systems: systems, Files: s.PowerVM.Files,
		PlainNames: s.PowerVM.PlainNames, ClassFromDevice: s.PowerVM.ClassFromDevice}), err
}

// systems returns the server, or a recorded answer that replaces it.
func (s Settings) systems(recorded string, log *slog.Logger) (slotsource.Systems, error) {
	if recorded != "" {
		return slotsource.Recorded{Path: recorded, System: s.PowerVM.Client.System}, nil
	}
	return s.PowerVMClient(log)
}

// powerVMAccount reads [powervm] username and password again.
func (s Settings) powerVMAccount() (user, password string, err error) {
	cfg, err := config.Load(s.files...)
	if err != nil {
		return "", "", err
	}
	if user, err = cfg.String(powerVMGroup, "username", "", nil); err == nil {
		password, err = cfg.String(powerVMGroup, "password", "", nil)
	}
	return user, password, err
}

// PowerVMClient returns a client of the REST API. The fault is Invalid for options that can never work.
func (s Settings) PowerVMClient(log *slog.Logger) (*restclient.Client, error) {
	options := s.PowerVM.Client
	options.Log, options.Account = log, s.powerVMAccount
	client, err := restclient.New(options)
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	return client, nil
}
