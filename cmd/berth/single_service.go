package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

// singleService is a service that runs alone, with noauth2 unless auth_strategy is set.
type singleService struct {
	name, address string
	dataDir       string   // with its state; empty: the state is elsewhere
	lock          string   // the file of dataDir that is locked; empty: the service locks its state itself
	entries       []string // of dataDir that only Berth's user needs
	open          func() (*app.Service, error)
}

// run runs the service until it is interrupted.
func (one singleService) run(ctx context.Context, s streams, conf settings.Settings, log *slog.Logger) (err error) {
	if err := app.CheckAuthentication(conf, settings.NoAuth2); err != nil {
		return err
	}
	at := &endpoint{name: one.name, flag: "--listen", address: one.address,
		noauth: conf.Strategy(settings.NoAuth2) == settings.NoAuth2}
	if err := listen(conf, log, at); err != nil {
		return err
	}
	if one.dataDir != "" {
		var names []string
		if one.lock != "" {
			names = []string{one.lock}
		}
		lock, err := app.Lock(one.dataDir, names...)
		if err != nil {
			return errors.Join(err, closeAll(at))
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
		if err := app.ProtectData(one.dataDir, log, append(one.entries, names...)...); err != nil {
			return errors.Join(err, closeAll(at))
		}
	}
	service, err := one.open()
	if err != nil {
		return errors.Join(err, closeAll(at))
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	at.handler, at.lost = service.Handler, service.Lost
	return serve(ctx, s, conf.Connections, log, at)
}

// unlessElsewhere returns the data directory if the database is an SQLite file in it, because no URL is configured.
func unlessElsewhere(url, dataDir string) string {
	if url != "" {
		return ""
	}
	return dataDir
}
