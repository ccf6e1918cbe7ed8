package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/sqldb"
)

// Placement creates the tables of the usage history unless an option says no, and serves without them if they cannot be
// created. A shadow creates none.
func TestTablesOfUsageHistory(t *testing.T) {
	for name, c := range map[string]struct {
		options, before string
		shadow          bool
		kept            bool
		log             string
	}{
		"default": {kept: true},
		"off":     {options: "[berth]\nusage_history = false\n"},
		"shadow":  {shadow: true},
		"of another program": {before: "CREATE TABLE berth_placement_schema (version INTEGER, name VARCHAR(255), " +
			"applied_at VARCHAR(32)); INSERT INTO berth_placement_schema VALUES (1, 'other', '')",
			log: "usage history not kept"},
	} {
		t.Run(name, func(t *testing.T) {
			url := "sqlite:///" + filepath.Join(t.TempDir(), "placement.db")
			db, err := sqldb.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			st, err := store.Open(t.Context(), db)
			if err == nil {
				err = st.Sync(t.Context())
			}
			for statement := range strings.SplitSeq(c.before, ";") {
				if err == nil && statement != "" {
					err = db.Write(t.Context(), func(tx *sqldb.Tx) error { _, err := tx.Exec(t.Context(), statement); return err })
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			log, config := slog.New(slog.NewTextHandler(&text, nil)), readSettings(t, c.options)
			config.PlacementDB = url
			auth, err := newAuthentication(config, settings.NoAuth2, log)
			if err != nil {
				t.Fatal(err)
			}
			open := func() (*Service, error) { return openPlacement(t.Context(), url, config, auth, log) }
			if c.shadow {
				open = func() (*Service, error) {
					service, _, err := startPlacement(t.Context(), url, config, auth, log, requireTables)
					return service, err
				}
			}
			service, err := open()
			if err != nil {
				t.Fatal(err)
			}
			client := placement.NewClient("http://placement", rest.InMemory(service.Handler), "admin")
			_, err = client.UsageHistory(t.Context(), placement.HistoryQuery{})
			if c.kept != (err == nil) || !c.kept && !fault.Is(err, fault.NotFound) {
				t.Error(err)
			}
			if err := service.Close(); err != nil {
				t.Error(err)
			}
			var tables []string
			err = db.Read(context.WithoutCancel(t.Context()), func(tx *sqldb.Tx) (err error) {
				tables, err = sqldb.TableNames(t.Context(), tx)
				return err
			})
			if slices.Contains(tables, "berth_usage_history") != c.kept || err != nil {
				t.Errorf("%v %v", tables, err)
			}
			if c.log == "" && strings.Contains(text.String(), "WARN") || !strings.Contains(text.String(), c.log) {
				t.Errorf("%s", text.String())
			}
		})
	}
}
