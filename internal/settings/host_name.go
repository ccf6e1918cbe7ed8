package settings

import (
	"os"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// maxHostBytes is the maximum length of [DEFAULT] host in bytes. The name of a device's provider begins with it, and
// Placement allows 200 characters.
const maxHostBytes = 155

// readHostName reads [DEFAULT] host. The default is the name of this machine.
func (s *Settings) readHostName(cfg *config.Config) error {
	name, err := os.Hostname()
	if err != nil {
		return fault.New(fault.Internal, "cannot read the host name of this machine: %w", err)
	}
	if s.Host, err = cfg.String("DEFAULT", "host", name, nil); err != nil {
		return err
	}
	e, ok := cfg.Get("DEFAULT", "host")
	if !ok {
		return nil
	}
	if err := provider.CheckHostName(s.Host); err != nil {
		return e.Fault("%s", fault.TextOf(err))
	}
	if len(s.Host) > maxHostBytes {
		return e.Fault("it has %d bytes; at most %d are allowed, because names of resource providers "+
			"begin with it",
			len(s.Host), maxHostBytes)
	}
	return nil
}
