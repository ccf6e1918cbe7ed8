package server

import (
	"context"
	"net/url"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// checkHost returns fault.Invalid (400) if the path has a {host} that is not a valid host name.
func (c *call) checkHost() error {
	if !strings.Contains(c.Route(), "{host}") {
		return nil
	}
	return provider.CheckHostName(c.R.PathValue("host"))
}

// hostFilter returns the parameter `host` of a list; empty: any host. It returns fault.Invalid (400) for a name that is
// not valid.
func hostFilter(q url.Values) (string, error) {
	name := q.Get("host")
	if name == "" {
		return "", nil
	}
	return name, provider.CheckHostName(name)
}

// unknownHost adds similar host names to a fault of kind NotFound. It returns other errors as they are.
func (s *server) unknownHost(ctx context.Context, name string, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	known, err := s.hostNames(ctx)
	if err != nil {
		return err
	}
	return provider.UnknownHost(name, known)
}

// hostNames lists the hosts whose agents have reported, by name.
func (s *server) hostNames(ctx context.Context) ([]string, error) {
	hosts, err := s.Store.Hosts(ctx)
	names := make([]string, 0, len(hosts))
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names, err
}
