package settings

import (
	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/config"
)

func (s *Settings) readCORS(cfg *config.Config) (err error) {
	if s.Placement.CORS, err = readOrigins(cfg, cors.Defaults()); err != nil {
		return err
	}
	s.Compute.CORS, err = readOrigins(cfg, cors.ComputeDefaults())
	return err
}

// readOrigins reads [cors] over the defaults of a service.
func readOrigins(cfg *config.Config, c cors.Options) (cors.Options, error) {
	var err error
	for option, list := range map[string]*[]string{"allowed_origin": &c.AllowedOrigin, "expose_headers": &c.ExposeHeaders,
		"allow_methods": &c.AllowMethods, "allow_headers": &c.AllowHeaders} {
		if *list, err = cfg.Strings("cors", option, *list); err != nil {
			return c, err
		}
	}
	if c.AllowCredentials, err = cfg.Bool("cors", "allow_credentials", c.AllowCredentials); err != nil {
		return c, err
	}
	c.MaxAge, err = cfg.Int("cors", "max_age", c.MaxAge, 0, 1<<31-1)
	return c, err
}

// CheckOrigins returns a fault if [cors] allowed_origin allows every web page while callers are not authenticated.
// missing is the auth_strategy that applies if the option is not set. With noauth2 a page needs no token, so it would
// be an administrator. Every page can have the origin "null", in a sandboxed frame. Origins that are listed by name are
// the operator's decision.
func (s Settings) CheckOrigins(missing string) error {
	if s.Strategy(missing) != NoAuth2 {
		return nil
	}
	for _, origin := range s.Placement.CORS.AllowedOrigin {
		if origin != "*" && origin != "null" {
			continue
		}
		e, _ := s.cfg.Get("cors", "allowed_origin")
		return e.Fault("%s lets every web page act as administrator while [api] auth_strategy is "+
			"noauth2; name the origins of pages that you trust, or set auth_strategy = http_basic or keystone", origin)
	}
	return nil
}
