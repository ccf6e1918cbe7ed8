package settings

import (
	"log/slog"
	"slices"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

const imageGroup = "glance"

var imageOptions = [...]string{"endpoint_override", "api_servers", "region_name", "valid_interfaces", "num_retries"}

// knownImages lists the options of ImageSettings.
func knownImages() []config.Name {
	names := identity.KnownAccount(imageGroup)
	for _, option := range imageOptions {
		names = append(names, config.Name{Group: imageGroup, Option: option})
	}
	return names
}

func (s *Settings) readImages(cfg *config.Config, _ *slog.Logger) (err error) {
	i := &s.Images
	for _, name := range slices.Backward(knownImages()) {
		if e, said := cfg.Get(name.Group, name.Option); said {
			i.At = e.Place()
		}
	}
	if i.At == "" {
		return nil
	}
	if i.Service.Servers, err = cfg.Strings(imageGroup, "api_servers", nil); err != nil {
		return err
	}
	address, err := cfg.String(imageGroup, "endpoint_override", "", nil)
	if err != nil {
		return err
	}
	if address != "" && len(i.Service.Servers) == 0 { // api_servers has priority, as in Nova
		i.Service.Servers = []string{address}
	}
	for _, option := range []string{"api_servers", "endpoint_override"} {
		if e, said := cfg.Get(imageGroup, option); said && e.Value != "" {
			if _, err := image.New(image.Options{Servers: i.Service.Servers}); err != nil {
				return e.Fault("settings.Read", "%s", fault.TextOf(err))
			}
		}
	}
	if i.Service.Region, err = cfg.String(imageGroup, "region_name", "", nil); err != nil {
		return err
	}
	if i.Service.Interfaces, err = cfg.Strings(imageGroup, "valid_interfaces",
		[]string{"internal", "public"}); err != nil {
		return err
	}
	for _, face := range i.Service.Interfaces {
		if e, _ := cfg.Get(imageGroup, "valid_interfaces"); !slices.Contains([]string{"public", "internal", "admin"}, face) {
			return e.Fault("settings.Read", "%q is not an interface; write public, internal or admin, separated by commas", face)
		}
	}
	if i.Service.Retries, err = cfg.Int(imageGroup, "num_retries", 3, 0, 100); err != nil {
		return err
	}
	i.Account, i.HasAccount, err = identity.ReadAccount(cfg, imageGroup)
	return err
}
