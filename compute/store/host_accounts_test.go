package store_test

import (
	"path/filepath"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// bindings bind hosts to accounts: the first one of a strategy, and others only when an operator says so.
func bindings(t *testing.T, s *store.Store) {
	ctx := t.Context()
	account := func(host string) string {
		t.Helper()
		b, err := s.HostAccount(ctx, host)
		must(t, err)
		return b.Account
	}
	bind := func(host, account, strategy, want string) {
		t.Helper()
		b, err := s.BindFreeHost(ctx, store.HostAccount{Host: host, Account: account, Strategy: strategy, Bound: noon})
		must(t, err)
		if b.Account != want || !b.Bound.Equal(noon) {
			t.Errorf("%+v, want %s", b, want)
		}
	}
	if got := account("h"); got != "" {
		t.Errorf("a new host is bound to %s", got)
	}
	is(t, s.UnbindHost(ctx, "h"), fault.NotFound)
	bind("h", "one", "http_basic", "one")
	bind("h", "two", "http_basic", "one")
	bind("h", "ÿ-three", "keystone", "ÿ-three") // ids of another strategy have no meaning
	must(t, s.BindHost(ctx, store.HostAccount{Host: "h", Account: "two", Strategy: "keystone", Bound: noon}))
	must(t, s.BindHost(ctx, store.HostAccount{Host: "new", Account: "two", Strategy: "keystone", Bound: noon}))
	if all, err := s.HostAccounts(ctx); err != nil || len(all) != 2 || all["h"].Account != "two" {
		t.Errorf("%+v %v", all, err)
	}
	must(t, s.UnbindHost(ctx, "h"))
	bind("h", "four", "keystone", "four")
	must(t, s.PutReport(ctx, schedule.Host{Name: "h", Provider: "root-h", Seen: noon}, admitted))
	must(t, s.Forget(ctx, "h"))
	if got := account("h"); got != "" || account("new") != "two" {
		t.Errorf("a forgotten host is bound to %s", got)
	}
}

// Bindings are durable: the next start has them.
func TestBindingsAreDurable(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "compute.db")
	want := store.HostAccount{Host: "h", Account: "one", Strategy: "http_basic", Bound: noon}
	must(t, open(t, url).BindHost(t.Context(), want))
	if got, err := open(t, url).HostAccount(t.Context(), "h"); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
}
