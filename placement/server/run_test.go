package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Run polls, records the age of the index, and continues when the database answers again.
func TestRunUpdatesTheIndex(t *testing.T) {
	server := databases.MariaDB(t)
	url := server.Database(t)
	const interval = 50 * time.Millisecond
	w := newWorldOn(t, url, func(o *Options) { o.RefreshInterval = interval })
	other := newWorldOn(t, url).store
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.server.Run(ctx) }()
	defer func() { stop(); <-ended }()
	waitForWrite := func() {
		t.Helper()
		id := provider.ID(uuid.NewString())
		_, _, err := other.CreateProvider(t.Context(), id, string(id), "")
		if err == nil {
			_, err = other.ReplaceInventories(t.Context(), id, 0,
				map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8)})
		}
		if err != nil {
			t.Fatal(err)
		}
		testenv.Until(t, "the index has the provider that another process created", func() bool {
			row, ok := w.server.service.Index.Snapshot().Row(id)
			return ok && row.Generation == 1
		})
	}
	waitForWrite()
	server.Kill(t)
	testenv.Until(t, "the age of the index increases while the database is down", func() bool {
		return w.server.indexState().Age >= 10*interval
	})
	server.Restart(t)
	waitForWrite()
	testenv.Until(t, "the age of the index decreases after the restart", func() bool {
		return w.server.indexState().Age <= 5*time.Second
	})
}

// TestUnknownOutcomeIsReported checks a write whose outcome cannot be determined, because another client changed the
// data first: the answer is 503 with a text and a code.
func TestUnknownOutcomeIsReported(t *testing.T) {
	server := databases.SharedMariaDB(t)
	url, proxy := server.Database(t), databases.NewProxy(t, server.Addr)
	w, other := newWorldOn(t, proxy.URL(url)), newWorldOn(t, url)
	host, _ := createHost(t, w.client(), "host", 4, 4)
	path, watch := "/resource_providers/"+string(host), w.server.service.Store.Watch
	w.server.service.Store.Watch = func(r store.Run) {
		watch(r)
		if fault.CodeOf(r.Err) == store.CodeUnknownOutcome {
			other.want(http.StatusOK, "PUT", path, `{"name":"other"}`)
		}
	}
	proxy.Break(databases.Cut{Word: "\x03COMMIT"})
	body := w.want(http.StatusServiceUnavailable, "PUT", path, `{"name":"new"}`)
	if !strings.Contains(body, "unknown whether the request took effect") ||
		!strings.Contains(body, store.CodeUnknownOutcome) {
		t.Error(body)
	}
	w.want(http.StatusOK, "PUT", path, `{"name":"new"}`)
}
