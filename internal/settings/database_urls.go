package settings

import (
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// readDatabases reads the URLs of the databases of Placement, compute and the network service.
func (s *Settings) readDatabases(cfg *config.Config) (err error) {
	if s.PlacementDB, err = readURL(cfg, "placement_database"); err != nil {
		return err
	}
	if s.ComputeDB, err = readURL(cfg, "database"); err != nil {
		return err
	}
	s.NetworkDB, err = readURL(cfg, "network_database")
	return err
}

// readURL reads a database URL and checks its form. The password in it is never shown.
func readURL(cfg *config.Config, group string) (string, error) {
	e, ok := cfg.Get(group, "connection")
	if !ok {
		return "", nil
	}
	if err := e.Check(); err != nil {
		return "", err
	}
	if err := sqldb.CheckURL(e.Value); err != nil {
		return "", e.Fault("%s", fault.TextOf(err))
	}
	return e.Value, nil
}
