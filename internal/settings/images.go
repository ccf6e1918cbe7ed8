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

// imageOptions are the rows of [glance], with which compute calls the image service, and of Berth's own image service.
func (s *Settings) imageOptions() config.Options {
	return append(s.glanceOptions(),
		config.Text("glance_store", "filesystem_store_datadir", &s.ImageStore.Dir, ""),
		config.Number("DEFAULT", "image_size_cap", &s.ImageStore.MaxSize, 1<<40, 1, 1<<62))
}

func (s *Settings) glanceOptions() config.Options {
	return append(config.Listed(identity.KnownCalls(imageGroup)),
		config.List(imageGroup, "api_servers", &s.Images.Service.Servers),
		config.Number(imageGroup, "num_retries", &s.Images.Service.Retries, 3, 0, 100))
}

// readGlance completes [glance]. Images are not looked up if it is not configured.
func (s *Settings) readGlance(cfg *config.Config, _ *slog.Logger) (err error) {
	i := &s.Images
	for _, o := range slices.Backward(s.glanceOptions()) {
		if e, set := cfg.Get(o.Group, o.Option); set {
			i.At = e.Place()
		}
	}
	if i.At == "" {
		*i = ImageSettings{}
		return nil
	}
	if i.Calls, err = identity.ReadCalls(cfg, imageGroup); err != nil {
		return err
	}
	if i.Calls.Address != "" && len(i.Service.Servers) == 0 { // api_servers has priority, as in Nova
		i.Service.Servers = []string{i.Calls.Address}
	}
	for _, option := range []string{"api_servers", "endpoint_override"} {
		if e, set := cfg.Get(imageGroup, option); set && e.Value != "" {
			if _, err := image.New(image.Options{Servers: i.Service.Servers}); err != nil {
				return e.Fault("%s", fault.TextOf(err))
			}
		}
	}
	return nil
}
