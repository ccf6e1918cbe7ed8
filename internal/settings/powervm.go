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

// powerVMOptions are the rows of [powervm].
func (s *Settings) powerVMOptions() config.Options {
	p := &s.PowerVM
	return config.Options{
		config.Text(powerVMGroup, "url", &p.Client.URL, ""),
		config.Text(powerVMGroup, "username", &p.Client.User, ""),
		config.Text(powerVMGroup, "password", &p.Client.Password, ""),
		config.Text(powerVMGroup, "cafile", &p.Client.CAFile, ""),
		config.Text(powerVMGroup, "pinned_certificate", &p.Client.PinFile, ""),
		config.Text(powerVMGroup, "system", &p.Client.System, ""),
		config.List(powerVMGroup, "inventory_files", &p.Files, inventoryfile.DefaultPath),
		config.Flag(powerVMGroup, "plain_provider_names", &p.PlainNames, false),
		config.Flag(powerVMGroup, "resource_class_from_device", &p.ClassFromDevice, false),
		config.Flag(powerVMGroup, "slots_required", &p.SlotsRequired, false),
		config.Number(powerVMGroup, "disk_gb", &p.DiskGB, 4096, 1, 1<<30),
	}
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
	options.Log, options.Account, options.Poll = log, s.powerVMAccount, s.Times.Agent.PowerVMPoll
	client, err := restclient.New(options)
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	return client, nil
}
