// Package app starts and connects the services: it opens their databases, builds them from their packages and connects
// them over their APIs, in memory or over TCP. `berth up`, `berth demo`, the commands for single services and the tests
// use it.
package app

import (
	"net/http"
	"os"
	"path/filepath"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// Names of the databases in a data directory.
const (
	placementFile = "placement.db"
	computeFile   = "compute.db"
)

// serviceToken is the token that services send to each other with noauth2.
const serviceToken = "admin:service"

// Service is a running service: its API and a function that stops it.
type Service struct {
	Handler http.Handler
	Close   func() error
	Lost    <-chan struct{} // closed when the service cannot continue; Close then returns the reason. nil: never
}

// PlacementURL returns the URL of Placement's database: the configured one, or an SQLite file under dir, which is
// created.
func PlacementURL(s settings.Settings, dir string) (string, error) {
	return databaseURL(s.PlacementDB, dir, placementFile)
}

// ComputeURL returns the URL of compute's database: the configured one, or an SQLite file under dir, which is created.
func ComputeURL(s settings.Settings, dir string) (string, error) {
	return databaseURL(s.ComputeDB, dir, computeFile)
}

func databaseURL(configured, dir, name string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fault.New(fault.Unavailable, "app.database", "cannot create the data directory: %w", err)
	}
	return "sqlite:///" + filepath.Join(dir, name), nil // as in SQLAlchemy: three slashes and the path
}

func hostClient(base string, transport *http.Client) host.Client {
	return host.Client{REST: &rest.Client{Base: base, HTTP: transport,
		Headers: map[string]string{"X-Auth-Token": serviceToken}}}
}
