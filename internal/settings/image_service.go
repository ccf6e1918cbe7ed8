package settings

import (
	"log/slog"
	"path/filepath"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/image/policies"
)

// CheckPolicy returns why the policy for authenticated callers could not be read.
func (i ImageStoreSettings) CheckPolicy() error { return i.policyErr }

// knownImageStore lists the options of ImageStoreSettings.
func knownImageStore() []config.Name {
	return []config.Name{{Group: "glance_store", Option: "filesystem_store_datadir"},
		{Group: "DEFAULT", Option: "image_size_cap"}}
}

// readImageStore reads the options of the image service. The policy files of a Glance on this machine apply only to
// callers that are authenticated.
func (s *Settings) readImageStore(cfg *config.Config, _ *slog.Logger) (err error) {
	i := &s.ImageStore
	if i.Dir, err = cfg.String("glance_store", "filesystem_store_datadir", "", nil); err != nil {
		return err
	}
	size, err := cfg.Int("DEFAULT", "image_size_cap", 1<<40, 1, 1<<62)
	if err != nil {
		return err
	}
	i.MaxSize = int64(size)
	var dirs []string
	for _, file := range s.files {
		dirs = append(dirs, filepath.Dir(file))
	}
	i.Policy, i.policyErr, err = s.loadPolicy(cfg, policies.Rules(), dirs, "/etc/glance")
	return err
}
