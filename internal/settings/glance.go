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

// knownImages lists the options of ImageSettings.
func knownImages() []config.Name {
	return append(identity.KnownCalls(imageGroup), config.Name{Group: imageGroup, Option: "api_servers"},
		config.Name{Group: imageGroup, Option: "num_retries"})
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
	if i.Calls, err = identity.ReadCalls(cfg, imageGroup); err != nil {
		return err
	}
	if i.Calls.Address != "" && len(i.Service.Servers) == 0 { // api_servers has priority, as in Nova
		i.Service.Servers = []string{i.Calls.Address}
	}
	for _, option := range []string{"api_servers", "endpoint_override"} {
		if e, said := cfg.Get(imageGroup, option); said && e.Value != "" {
			if _, err := image.New(image.Options{Servers: i.Service.Servers}); err != nil {
				return e.Fault("%s", fault.TextOf(err))
			}
		}
	}
	i.Service.Retries, err = cfg.Int(imageGroup, "num_retries", 3, 0, 100)
	return err
}
