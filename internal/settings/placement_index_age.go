package settings

import (
	"time"

	"github.com/openberth/berth/config"
)

// defaultIndexAge is the default of index_max_age, in addition to ten refresh intervals. /healthz reports an older
// index.
const defaultIndexAge = 30 * time.Second

// readIndex reads the options for the age of the index.
func (p *PlacementSettings) readIndex(cfg *config.Config) error {
	seconds, err := cfg.Float("berth", "index_refresh_interval", 1, 0.05, 3600)
	if err != nil {
		return err
	}
	p.IndexRefresh = time.Duration(seconds * float64(time.Second))
	if seconds, err = cfg.Float("berth", "index_max_age", (defaultIndexAge + 10*p.IndexRefresh).Seconds(), 0,
		86400); err != nil {
		return err
	}
	p.IndexMaxAge = time.Duration(seconds * float64(time.Second))
	if e, ok := cfg.Get("berth", "index_max_age"); ok && p.IndexMaxAge > 0 && p.IndexMaxAge < 2*p.IndexRefresh {
		return e.Fault("less than two times index_refresh_interval (%s); write at least two times that, "+
			"or 0 for any age", p.IndexRefresh)
	}
	return nil
}
