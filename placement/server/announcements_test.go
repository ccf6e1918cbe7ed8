package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
)

func TestWritesAreAnnounced(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { writesAreAnnounced(t, databases.SQLite(t), nil) })
	for _, start := range []func(testing.TB, ...string) *databases.Server{databases.MariaDB, databases.PostgreSQL} {
		server := start(t)
		t.Run(server.Name(), func(t *testing.T) { writesAreAnnounced(t, server.Database(t), server) })
	}
}

// A write of one server is soon in the index of another: both poll once an hour here. After the connections of the
// database were ended, announcements arrive again.
func writesAreAnnounced(t *testing.T, url string, database *databases.Server) {
	hourly := func(o *Options) { o.RefreshInterval = time.Hour }
	writer, reader := newWorldOn(t, url, hourly), newWorldOn(t, url, hourly)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	for _, w := range []*world{writer, reader} {
		go func() {
			w.server.Run(ctx)
			ended <- struct{}{}
		}()
	}
	t.Cleanup(func() { stop(); <-ended; <-ended })
	host := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
	n := 0
	visible := func() (shown bool) { // whether a provider that is created now is in the index of the other soon
		n++
		writer.must("1.39", "POST", "/resource_providers", fmt.Sprintf(`{"name": "h%d", "uuid": %q}`, n, host(n)))
		for end := time.Now().Add(5 * time.Second); !shown && time.Now().Before(end); time.Sleep(time.Millisecond) {
			_, shown = reader.server.service.Index.Snapshot().Row(provider.ID(host(n)))
		}
		return shown
	}
	await(t, visible)
	writer.must("1.39", "PUT", "/resource_providers/"+host(n)+"/inventories",
		`{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}`)
	candidates := func(limit string) int {
		return strings.Count(reader.must("1.39", "GET", "/allocation_candidates?resources=VCPU:"+limit, ""),
			`"allocations"`)
	}
	await(t, func() bool { return candidates("8") == 1 })
	writer.must("1.39", "PUT", "/allocations/"+host(900), `{"allocations": {"`+host(n)+`": {"resources": {"VCPU": 5}}},
		"project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`)
	await(t, func() bool { return candidates("8") == 0 && candidates("3") == 1 })
	writer.must("1.39", "DELETE", "/allocations/"+host(900), "")
	await(t, func() bool { return candidates("8") == 1 })

	if database != nil {
		database.Kill(t)
		database.Restart(t)
	}
	await(t, func() bool { // until both are connected again, writes are left to the polls
		resp := writer.ask("1.39", "GET", "/resource_providers", "")
		return resp.StatusCode == 200 && visible()
	})
	writer.must("1.39", "DELETE", "/resource_providers/"+host(n), "")
	await(t, func() bool {
		_, there := reader.server.service.Index.Snapshot().Row(provider.ID(host(n)))
		return !there
	})
}

// await waits until something is true.
func await(t *testing.T, is func() bool) {
	t.Helper()
	testenv.Until(t, "the other server has the change", is)
}
