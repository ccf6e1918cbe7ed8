package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/libvirtd"
)

// A server is deleted while its live migration copies: the copy is aborted, and neither host has a domain or a file of
// it.
func TestLibvirtDeleteDuringLiveMigration(t *testing.T) {
	t.Parallel()
	a, b := libvirtd.StartPair(t)
	m := newMigrationLab(t, a, b)
	m.startAgents("live_migration_bandwidth = 1\n")
	s := m.startCounter()
	from, to := "cmp1", "cmp2"
	if *s.Host == to {
		from, to = to, from
	}
	m.console(t, from, s.ID, 3)
	must(t, m.compute.compute().Act(t.Context(), s.ID, "os-migrateLive", migrateTo(to)))
	m.awaitCopying(to, s.ID)
	m.delete(s)
	m.awaitNoGuest(from, s.ID)
	m.awaitNoGuest(to, s.ID)
	if log := m.agents[from].log.String(); strings.Contains(log, "guest migrated") {
		t.Errorf("the copy was completed:\n%s", log)
	}
}
