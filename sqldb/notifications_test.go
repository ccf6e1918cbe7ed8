package sqldb

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
)

func TestNotifications(t *testing.T) {
	for _, server := range []*databases.Server{databases.SharedMariaDB(t), databases.SharedPostgreSQL(t)} {
		t.Run(server.Name(), func(t *testing.T) {
			url := server.Database(t)
			t.Run("all", func(t *testing.T) { notificationsArrive(t, url, server.Database(t)) })
			t.Run("lost", func(t *testing.T) { listenerIsLost(t, server, url) })
		})
	}
}

// listener collects what it receives on a channel.
type listener struct {
	db    *DB
	texts chan string
	ended chan error
	stop  context.CancelFunc
}

func listen(t *testing.T, url string) *listener {
	t.Helper()
	db, err := Open(t.Context(), url)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	l := &listener{db, make(chan string, 10_000), make(chan error, 1), stop}
	ready := make(chan struct{})
	go func() {
		l.ended <- db.Listen(ctx, "things", func() { close(ready) }, func(text string) { l.texts <- text })
	}()
	select {
	case <-ready:
	case err := <-l.ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		<-l.ended
		must(t, db.Close())
	})
	return l
}

// meet makes each listener send texts until each has received one of each other, as texts may be lost.
func meet(t *testing.T, all []*listener) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), testenv.Patience)
	defer stop()
	var sending, receiving sync.WaitGroup
	for i, from := range all {
		sending.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := from.db.Notify(ctx, "things", fmt.Sprint("from ", i, ": ", n)); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				_ = backoff.Sleep(ctx, 10*time.Millisecond)
			}
		})
		receiving.Go(func() {
			for got := map[string]bool{fmt.Sprint("from ", i): true}; len(got) < len(all); {
				select {
				case text := <-from.texts:
					sender, _, _ := strings.Cut(text, ":")
					got[sender] = true
				case <-ctx.Done():
					t.Errorf("client %d has texts of %v only", i, got)
					return
				}
			}
		})
	}
	receiving.Wait()
	stop()
	sending.Wait()
	for _, l := range all {
		for len(l.texts) > 0 {
			<-l.texts
		}
	}
}

// Each of several clients receives what each other sends, all at the same time, and nothing of another database. After
// all have ended, none of their connections is left.
func notificationsArrive(t *testing.T, url, other string) {
	all := []*listener{listen(t, url), listen(t, url), listen(t, url)}
	strangers := []*listener{listen(t, other), listen(t, other)}
	for range 3 {
		meet(t, all)
	}
	if len(strangers[0].texts) > 0 {
		t.Errorf("another database received %q", <-strangers[0].texts)
	}
	meet(t, strangers)
	for _, l := range all {
		l.stop()
		l.ended <- <-l.ended
		must(t, l.db.Close())
	}
	location, err := Locate(url)
	must(t, err)
	if n, err := Sessions(t.Context(), location); n != 0 || err != nil {
		t.Errorf("%d connections are left, %v", n, err)
	}
}

// When the connections of a client are ended, its Listen fails, and the others still receive what they send.
func listenerIsLost(t *testing.T, server *databases.Server, url string) {
	proxy := databases.NewProxy(t, server.Addr)
	all := []*listener{listen(t, url), listen(t, url)}
	lost := listen(t, proxy.URL(url))
	meet(t, append(all, lost))
	proxy.Drop()
	select {
	case err := <-lost.ended:
		if err == nil {
			t.Error("no error for a lost connection")
		}
		lost.ended <- err
	case <-time.After(testenv.Patience):
		t.Fatal("a lost connection is not noticed")
	}
	meet(t, all)
	meet(t, append(all, listen(t, url)))
}
