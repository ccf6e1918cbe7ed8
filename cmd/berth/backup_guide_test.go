package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// TestBackupAndRestore runs the commands of the chapter on backup and restore, and checks the results that it
// describes.
func TestBackupAndRestore(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		newGuideSite(t, "sqlite", aliases+pciInPlacement, "").followChapter()
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		server := databases.MariaDB(t)
		host, port, err := net.SplitHostPort(server.Addr)
		must(t, err)
		connections := fmt.Sprintf("[placement_database]\nconnection = mysql+pymysql://berth:berth@%[1]s/placement\n"+
			"[database]\nconnection = mysql+pymysql://berth:berth@%[1]s/compute\n", server.Addr)
		client := fmt.Sprintf("[client]\nprotocol = tcp\nhost = %s\nport = %s\nuser = berth\npassword = berth\n", host, port)
		newGuideSite(t, "mariadb", connections+aliases+pciInPlacement, client).followChapter()
	})
}

// followChapter runs the procedures of the chapter. All except the last leave a healthy cloud.
func (s *guideSite) followChapter() {
	s.addHost("cmp1")
	s.restoreOlderPlacement()
	s.losePlacement()
	s.restoreOlderCompute()
	s.restoreOlderJournal()
	s.restoreEverything()
	s.loseCompute()
	for block, text := range s.blocks {
		if !s.ran[block] {
			s.t.Errorf("the test does not run the block: %s", text)
		}
	}
}

// restoreOlderPlacement restores a copy of Placement's database from before cmp2 joined, one server moved there, one
// was created and one was deleted.
func (s *guideSite) restoreOlderPlacement() {
	stays, moved, deleted := s.server("stays", "a-vf:1"), s.server("moved", "a-vf:1"), s.server("deleted", "a-pci-dev:1")
	s.run("services", save)
	created := s.server("created", "a-vf:1")
	s.addHost("cmp2")
	moved = s.migrate(moved, "cmp2")
	s.delete(deleted)
	guests, held := s.guestsOf(stays, moved, created), s.allocations(stays, moved, created)

	s.run("services", putDatabase, "NAME=placement")
	s.wantRefusal("Placement lacks allocations of servers")
	s.waitForCondition("cmp1", "server created ("+created.ID+") lacks")
	s.waitForCondition("cmp2", "server moved ("+moved.ID+") lacks")
	s.waitForProviders("cmp2")
	for _, left := range []compute.Server{moved, deleted} {
		s.waitForCondition("cmp1", left.ID+" has")
		s.run("services", deleteAllocation, "CONSUMER="+left.ID)
	}
	for _, host := range []string{"cmp1", "cmp2"} {
		s.run("services", heal, "HOST="+host)
	}
	s.waitUntilHealthy()
	s.compare("guests", guests, s.guestsOf(stays, moved, created))
	s.compare("allocations", held, s.allocations(stays, moved, created))
	s.compare("allocation of the deleted server", map[string]string{"deleted": "map[]"}, s.allocations(deleted))
	s.wantActive(stays, moved, created)
	s.delete(stays, moved, created)
}

func (s *guideSite) losePlacement() {
	one, two := s.server("one", "a-vf:1"), s.server("two", "a-pci-dev:1")
	guests, held := s.guestsOf(one, two), s.allocations(one, two)
	s.deleteDatabase("placement")
	for _, host := range []string{"cmp1", "cmp2"} {
		s.waitForProviders(host)
		s.run("services", heal, "HOST="+host)
	}
	s.waitUntilHealthy()
	s.compare("guests", guests, s.guestsOf(one, two))
	s.compare("allocations", held, s.allocations(one, two))
	s.wantActive(one, two)
	s.delete(one, two)
}

func (s *guideSite) restoreOlderCompute() {
	t := s.t
	stays, moved, deleted := s.server("stays", "a-vf:1"), s.server("moved", "a-vf:1"), s.server("deleted", "a-pci-dev:1")
	stopped := s.server("stopped", "a-pci-dev:1")
	s.run("services", save)
	runs := s.guestsOf(stopped)
	s.act(stopped, "SHUTOFF", "os-stop", nil)
	from, to := *moved.Host, other(*moved.Host)
	moved = s.migrate(moved, to)
	created := s.server("created", "a-vf:1")
	s.delete(deleted)
	guests, held := s.guestsOf(stays, moved, created), s.allocations(stays, moved, created)
	untouched := func(when string) {
		t.Helper()
		s.compare("guests "+when, guests, s.guestsOf(stays, moved, created))
		s.compare("allocations "+when, held, s.allocations(stays, moved, created))
	}

	s.run("services", putDatabase, "NAME=compute")
	for _, host := range []string{"cmp1", "cmp2"} {
		s.waitForCondition(host, "compute's database lacks assignments that this host has followed")
	}
	s.wantRefusal("does not follow compute's assignments")
	untouched("restored")
	shown := map[string]string{}
	for _, host := range []string{"cmp1", "cmp2"} {
		shown[host] = s.run(host, adopt)
	}
	s.wantShown(shown[*stays.Host], stays, "stays as it is")
	s.wantShown(shown[*stopped.Host], stopped, "is started or stopped, as compute records")
	s.wantShown(shown[*created.Host], created, "stays as it is, and a condition names it")
	s.wantShown(shown[to], moved, "stays as it is, and a condition names it")
	s.wantShown(shown[from], moved, "is not built, because its allocation is not here")
	s.waitForCondition(*created.Host, "berth agent destroy "+created.ID)
	s.waitForCondition(*created.Host, created.ID+" has")
	s.waitForCondition(to, "berth agent destroy "+moved.ID)
	s.waitForStatus(deleted, "ERROR")
	testenv.Until(t, "the stopped server is started", func() (bool, error) {
		return maps.Equal(s.guestsOf(stopped),
			runs), nil
	})
	testenv.Until(t, "the deletion of the moved server waits", func() (bool, error) {
		why, stderr, _ := output(t, s.args("server", "why", moved.ID)...)
		return strings.Contains(why, "host "+to+" has a guest of this server"), fmt.Errorf("%s%s", why, stderr)
	})
	if now, err := s.compute.compute().Server(t.Context(), moved.ID); err != nil || *now.Host != from {
		t.Errorf("the moved server is on %v: %v", now.Place, err)
	}
	untouched("adopted")

	s.run(*created.Host, destroyGuest, "GUEST="+created.ID)
	s.run("services", deleteAllocation, "CONSUMER="+created.ID)
	s.run(to, destroyGuest, "GUEST="+moved.ID)
	s.delete(moved, deleted)
	s.waitUntilHealthy()
	s.compare("guests", map[string]string{"stays": guests["stays"]}, s.guestsOf(stays))
	s.compare("allocations", map[string]string{"stays": held["stays"], "moved": "map[]"}, s.allocations(stays, moved))
	s.wantActive(stays, stopped)
	s.delete(stays, stopped)
}

// restoreOlderJournal restores a journal in which a deleted server has a device that another server has now.
func (s *guideSite) restoreOlderJournal() {
	t := s.t
	stays, deleted := s.serverOn("cmp1", "stays", "a-pci-dev:1"), s.serverOn("cmp1", "deleted", "a-pci-dev:1")
	s.run("cmp1", save)
	s.delete(deleted)
	created := s.serverOn("cmp1", "created", "a-pci-dev:1")
	guests, held := s.guestsOf(stays, created), s.allocations(stays, created)
	unchanged := func(when string) {
		t.Helper()
		s.waitUntilHealthy()
		s.compare("guests "+when, guests, s.guestsOf(stays, created))
		s.compare("allocations "+when, held, s.allocations(stays, created))
		s.wantActive(stays, created)
	}
	s.run("cmp1", putJournal)
	unchanged("with an older journal")

	s.run("cmp1", putJournal) // the agent was restarted since the copy
	s.agents["cmp1"].wantFailure(t, "another start of the same journal", "this one can take its place in")
	must(t, os.Remove(s.data("cmp1", "agent", "journal")))
	s.systemctl("start", "agent", "cmp1")
	s.agents["cmp1"].wantFailure(t, "another agent serves host cmp1", "this one can take its place in")
	s.compare("guests without a journal", guests, s.guestsOf(stays, created))

	s.shell("cmp1", "mv $(ls -d data/agent/before-restore-* | tail -1)/journal data/agent/")
	s.rewriteMachine("cmp1")
	// the guest was not moved with the directory, and is built again
	must(t, os.Remove(s.data("cmp1", "agent", "guests", created.ID+".json")))
	s.systemctl("start", "agent", "cmp1")
	s.agents["cmp1"].wantFailure(t, "was written on another machine", "berth agent adopt")
	s.run("cmp1", adopt)
	unchanged("on another machine")
	s.delete(stays, created)
}

// rewriteMachine changes the machine in the journal of a host.
func (s *guideSite) rewriteMachine(host string) {
	s.t.Helper()
	j, err := journal.Open(s.data(host, "agent"))
	must(s.t, err)
	id, _ := j.State().Identity()
	id.Machine = "another"
	must(s.t, j.Write(id.Entry()))
	must(s.t, j.Close())
}

func (s *guideSite) restoreEverything() {
	hosts := []string{"cmp1", "cmp2"}
	stays, moved, deleted := s.server("stays", "a-vf:1"), s.server("moved", "a-pci-dev:1"), s.server("deleted",
		"a-pci-dev:1")
	for _, host := range hosts {
		s.run(host, save)
	}
	s.run("services", save)
	from, to := *moved.Host, other(*moved.Host)
	moved = s.migrate(moved, to)
	s.delete(deleted)
	created := s.server("created", "a-vf:1")
	guests, held := s.guestsOf(stays, moved, created), s.allocations(stays)

	for _, name := range []string{"placement", "compute"} {
		s.run("services", putDatabase, "NAME="+name)
	}
	for _, host := range hosts {
		s.run(host, putJournal)
	}
	s.waitForCondition(*created.Host, "berth agent destroy "+created.ID)
	s.waitForCondition(to, "berth agent destroy "+moved.ID)
	s.waitForCondition(from, "guest not built: host "+to+" has a guest of this server")
	s.waitForStatus(deleted, "SHUTOFF") // its journal says that it was built: it does not get a blank disk
	s.delete(deleted)
	s.compare("guests", guests, s.guestsOf(stays, moved, created))

	s.run(to, destroyGuest, "GUEST="+moved.ID)
	s.run(*created.Host, destroyGuest, "GUEST="+created.ID)
	s.waitForStatus(moved, "SHUTOFF") // its disk left with it
	s.compare("guests", map[string]string{"stays": guests["stays"], "moved": "", "created": ""},
		s.guestsOf(stays, moved, created))
	s.delete(moved)
	s.waitUntilHealthy()
	s.compare("allocations", held, s.allocations(stays))
	s.wantActive(stays)
}

// loseCompute creates compute's database again, and deletes the journal of cmp2.
func (s *guideSite) loseCompute() {
	t := s.t
	stays, far := s.server("left", "a-vf:1"), s.serverOn("cmp2", "far", "a-vf:1")
	guests, held := s.guestsOf(stays, far), s.allocations(stays, far)
	s.systemctl("stop", "agent", "cmp2")
	must(t, os.Remove(s.data("cmp2", "agent", "journal")))
	s.deleteDatabase("compute")
	s.systemctl("start", "agent", "cmp2")
	s.waitForCondition("cmp1", "the assignments are those of another cloud")
	s.run("cmp1", adopt)
	for _, one := range []compute.Server{stays, far} {
		s.waitForCondition(*one.Host, "berth agent destroy "+one.ID)
		s.waitForCondition(*one.Host, one.ID+" has")
	}
	s.wantActive(s.serverOn("cmp1", "new1", "a-vf:1"), s.serverOn("cmp2", "new2", "a-vf:1"))
	s.compare("guests", guests, s.guestsOf(stays, far))
	s.compare("allocations", held, s.allocations(stays, far))
}

// deleteDatabase deletes the database of a service and lets the service create it again.
func (s *guideSite) deleteDatabase(name string) {
	s.t.Helper()
	s.systemctl("stop", name, "services")
	if s.kind == "sqlite" {
		must(s.t, os.Remove(s.data("services", name+".db")))
	} else {
		s.shell("services", fmt.Sprintf("mariadb -e 'DROP DATABASE %[1]s; CREATE DATABASE %[1]s'", name))
	}
	s.systemctl("start", name, "services")
}

// waitForProviders waits until the agent of a host has created its four device providers.
func (s *guideSite) waitForProviders(host string) {
	s.t.Helper()
	p := s.placement.placement()
	testenv.Until(s.t, host+" has its providers", func() (bool, error) {
		root, err := p.ProviderByName(s.t.Context(), host)
		if err != nil {
			return false, err
		}
		tree, err := p.Tree(s.t.Context(), root.ID)
		offered := 0
		for _, one := range tree.Providers {
			if one.Parent != "" && len(one.Inventories) > 0 {
				offered++
			}
		}
		return offered == 4, err
	})
}

// migrate migrates a server to a host and confirms the migration.
func (s *guideSite) migrate(server compute.Server, to string) compute.Server {
	s.t.Helper()
	return s.wantActiveOn(to,
		s.act(s.wantResized(to, s.act(server, "VERIFY_RESIZE", "migrate", map[string]any{"host": to})), "ACTIVE",
			"confirmResize", nil))
}

// serverOn creates a server on a host.
func (s *guideSite) serverOn(host, name, alias string) compute.Server {
	s.t.Helper()
	server := s.server(name, alias)
	if server.Host != nil && *server.Host != host {
		server = s.migrate(server, host)
	}
	return s.wantActiveOn(host, server)
}

// waitUntilHealthy waits until no host has a condition. It checks that preflight succeeds and that a new server is
// built.
func (s *guideSite) waitUntilHealthy() {
	s.t.Helper()
	for _, host := range []string{"cmp1", "cmp2"} {
		testenv.Until(s.t, host+" has no condition", func() (bool, error) {
			return s.conditions(host) == "", fmt.Errorf("%s",
				s.conditions(host))
		})
	}
	s.run("services", showState)
	probe := s.server("probe", "a-vf:1")
	s.wantActive(probe)
	s.delete(probe)
}

// wantRefusal checks that a new server finds no host for this reason.
func (s *guideSite) wantRefusal(why string) {
	s.t.Helper()
	probe := s.server("refused", "a-vf:1")
	if probe.Status != "ERROR" || probe.Fault == nil || !strings.Contains(probe.Fault.Message, why) {
		s.t.Errorf("a new server is %s: %+v", probe.Status, probe.Fault)
	}
	s.delete(probe)
}

// wantShown checks that the output of berth agent adopt has this effect for a server.
func (s *guideSite) wantShown(text string, server compute.Server, then string) {
	s.t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, server.ID) && strings.Contains(line, "  "+then) {
			return
		}
	}
	s.t.Errorf("the effect on %s is not %q:\n%s", server.Name, then, text)
}

// guestsOf returns the host and the file of the guest of each server, by name of the server; for guests on two hosts,
// both.
func (s *guideSite) guestsOf(servers ...compute.Server) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, server := range servers {
		out[server.Name] = ""
		for _, host := range []string{"cmp1", "cmp2"} {
			if file, exists := guestsIn(s.t, s.data(host))[server.ID]; exists {
				out[server.Name] += host + " " + file
			}
		}
	}
	return out
}

// allocations returns the allocation of each server, by name.
func (s *guideSite) allocations(servers ...compute.Server) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, server := range servers {
		has, err := s.placement.placement().Allocation(s.t.Context(), resource.ConsumerID(server.ID))
		must(s.t, err)
		out[server.Name] = fmt.Sprint(has.Allocation)
	}
	return out
}

// compare compares the present values with those before, by name.
func (s *guideSite) compare(what string, was, is map[string]string) {
	s.t.Helper()
	for name, text := range is {
		if text != was[name] {
			s.t.Errorf("%s: %s was\n%s\nnow\n%s", what, name, was[name], text)
		}
	}
}

// waitForStatus waits for a status of a server.
func (s *guideSite) waitForStatus(server compute.Server, status string) {
	s.t.Helper()
	testenv.Until(s.t, server.Name+" is "+status, func() (bool, error) {
		now, err := s.compute.compute().Server(s.t.Context(), server.ID)
		return now.Status == status, err
	})
}

// wantActive checks that servers are ACTIVE.
func (s *guideSite) wantActive(servers ...compute.Server) {
	s.t.Helper()
	for _, server := range servers {
		now, err := s.compute.compute().Server(s.t.Context(), server.ID)
		if err != nil || now.Status != "ACTIVE" {
			s.t.Errorf("%s is %s with %+v: %v", server.Name, now.Status, now.Fault, err)
		}
	}
}
