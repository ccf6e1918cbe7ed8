package app

import (
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/api/trace"
	imageserver "github.com/openberth/berth/image/server"
	imagestore "github.com/openberth/berth/image/store"
	"github.com/openberth/berth/image/webdownload"
	"github.com/openberth/berth/internal/settings"
)

// ImageDir is the directory of images in a data directory.
const ImageDir = "images"

// OpenImage starts the image service on the directory of the configuration, or on one below dir, and locks that
// directory. Without an auth_strategy it is noauth2.
func OpenImage(dir string, s settings.Settings, log *slog.Logger) (*Service, error) {
	auth, err := newAuthentication(s, settings.NoAuth2, log.With("service", "image"))
	if err != nil {
		return nil, err
	}
	return openImage(dir, s, auth, log)
}

// openImage is OpenImage with the authentication of its callers.
func openImage(dir string, s settings.Settings, auth authentication, log *slog.Logger) (*Service, error) {
	log = trace.Log(log.With("service", "image"))
	if err := s.ImageStore.Policy.Check(); err != nil {
		return nil, err
	}
	if dir = filepath.Join(dir, ImageDir); s.ImageStore.Dir != "" {
		dir = s.ImageStore.Dir
	}
	lock, err := Lock(dir, ImageLock)
	if err != nil {
		return nil, err
	}
	st, err := imagestore.Open(dir, log)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	limits := imagestore.Limits{Size: int64(s.ImageStore.MaxSize), Project: s.ImageStore.Quota,
		Count: s.ImageStore.Images}
	imports := imageserver.NewImports(st, webdownload.Client{Rules: s.ImageStore.Web}, limits, log)
	options := imageserver.Options{Store: st, Limits: limits, Imports: imports,
		Methods: s.ImageStore.Methods,
		Options: auth.edge("image", s.Compute.CORS, s.ProxyHeaders, s.ImageStore.Policy, log)}
	exporter := trace.NewExporter(s.OTLPEndpoint, "berth-image", log)
	return &Service{Handler: trace.Handler(rest.Limit(imageserver.New(options), s.RequestTime), exporter),
		Close: func() error {
			imports.Close()
			exporter.Close()
			return errors.Join(auth.closeAudit(), lock.Close())
		}}, nil
}

// imagesInMemory returns a client of an image service in this process. token is that of the process's own account;
// empty: that of the caller, as with noauth2.
func imagesInMemory(service *Service, token string) (*image.Client, error) {
	return image.New(image.Options{Servers: []string{"http://image"}, HTTP: rest.InMemory(service.Handler),
		Token: token})
}
