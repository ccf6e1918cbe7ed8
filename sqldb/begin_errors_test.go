package sqldb

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
)

// TestBeginCanBeCancelled cancels a transaction whose BEGIN is not answered.
func TestBeginCanBeCancelled(t *testing.T) {
	for word, server := range map[string]*databases.Server{"START TRANSACTION": databases.SharedMariaDB(t),
		"BEGIN": databases.SharedPostgreSQL(t)} {
		url, proxy := server.Database(t), databases.NewProxy(t, server.Addr)
		db := open(t, proxy.URL(url))
		ctx, cancel := context.WithCancel(t.Context())
		proxy.Break(databases.Cut{Word: word, Stall: true, Do: cancel})
		err := db.Read(ctx, func(*Tx) error { t.Error("it ran"); return nil })
		cancel()
		if !fault.Is(err, fault.Unavailable) || IsUnknown(err) || proxy.Broken() != 1 {
			t.Errorf("%s: %d stalled: %v", server.Name(), proxy.Broken(), err)
		}
		must(t, db.Write(t.Context(), insertRow("a")))
	}
}

// TestErrorsOfBegin checks the errors of a Galera node at BEGIN: each has a kind and an explanation.
func TestErrorsOfBegin(t *testing.T) {
	for _, c := range []struct {
		number uint16
		took   time.Duration
		again  bool
		text   string
	}{
		{1047, 0, true, "its node has left the cluster"},
		{1205, 0, true, "its node has left the cluster"}, // while the cluster changes
		{1205, time.Minute, false, "has not caught up with the others"},
		{1045, 0, false, "Error 1045"}, // access denied
		{1047, time.Minute, false, "has not answered for 1m0s"},
	} {
		err := beginError(&mysql.MySQLError{Number: c.number}, c.took)
		if !fault.Is(err, fault.Unavailable) || IsUnknown(err) || isRepeatable(err) != c.again ||
			!strings.Contains(fault.TextOf(err), c.text) {
			t.Errorf("%d after %v: again %t: %v", c.number, c.took, isRepeatable(err), err)
		}
	}
}
