package main

import (
	"log/slog"

	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

// files are the flags of every command that reads configuration files.
type files struct {
	ConfigFile []string `help:"Configuration file in OpenStack's syntax; may be repeated, later ones have priority." type:"existingfile" placeholder:"FILE"`
	DataDir    string   `help:"Directory of durable state. Default: ${default}." default:"./berth-data" type:"path" placeholder:"DIR"`
}

// read reads the settings and creates a log with their level. The fault of wrong settings lists all errors.
func (f files) read(s streams) (settings.Settings, *slog.Logger, error) {
	level := new(slog.LevelVar)
	log := newLog(s.log, level)
	conf, err := settings.Read(log, f.ConfigFile...)
	if err != nil {
		return conf, log, settings.AllErrors(err, f.ConfigFile...)
	}
	if conf.Debug {
		level.Set(slog.LevelDebug)
	}
	if conf.LogFile != "" {
		file, err := openLog(conf.LogFile)
		if err != nil {
			return conf, log, err
		}
		log = newLog(file, level)
	}
	return conf, log, nil
}

// placementFiles are the flags of the Placement commands. Without --config-file they read the same files as OpenStack's
// Placement.
type placementFiles struct{ files }

// read reads the settings, and logs which files it found.
func (f placementFiles) read(s streams) (settings.Settings, *slog.Logger, error) {
	found := len(f.ConfigFile) == 0
	if found {
		var err error
		if f.ConfigFile, err = settings.PlacementFiles(); err != nil {
			return settings.Settings{}, nil, err
		}
	}
	conf, log, err := f.files.read(s)
	if err == nil && found {
		log.Info("no --config-file given; using the default files", "files", f.ConfigFile)
	}
	return conf, log, err
}

// databaseURL reads the settings and returns the URL of Placement's database.
func (f placementFiles) databaseURL(s streams) (string, error) {
	conf, _, err := f.read(s)
	if err != nil {
		return "", err
	}
	return app.PlacementURL(conf, f.DataDir)
}
