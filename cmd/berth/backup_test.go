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

// The chapter on backup and restore is followed literally, and what it says of the outcome is so.
func TestBackupAndRestore(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		newGuideSite(t, "sqlite", aliases+asking, "").follow()
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		server := databases.MariaDB(t)
		host, port, err := net.SplitHostPort(server.Addr)
		must(t, err)
		connections := fmt.Sprintf("[placement_database]\nconnection = mysql+pymysql://berth:berth@%[1]s/placement\n"+
			"[database]\nconnection = mysql+pymysql://berth:berth@%[1]s/compute\n", server.Addr)
		client := fmt.Sprintf("[client]\nprotocol = tcp\nhost = %s\nport = %s\nuser = berth\npassword = berth\n", host, port)
		newGuideSite(t, "mariadb", connections+aliases+asking, client).follow()
	})
}

// follow goes through the chapter. Each part but the last leaves a healthy cloud.
func (s *guideSite) follow() {
	s.addHost("cmp1")
	s.placementIsOlder()
	s.placementIsLost()
	s.computeIsOlder()
	s.journalIsOlder()
	s.everythingIsOlder()
	s.computeIsLost()
	for block, text := range s.blocks {
		if !s.ran[block] {
			s.t.Errorf("this block was not run: %s", text)
		}
	}
}

// cmp2 joins, one server moves there, one is created and one is deleted after the copy. Then Placement knows nothing of
// it.
func (s *guideSite) placementIsOlder() {
	stays, moved, deleted := s.server("stays", "a-vf:1"), s.server("moved", "a-vf:1"), s.server("deleted", "a-pci-dev:1")
	s.run("services", copyDatabases)
	created := s.server("created", "a-vf:1")
	s.addHost("cmp2")
	moved = s.migrate(moved, "cmp2")
	s.delete(deleted)
	guests, held := s.guestsOf(stays, moved, created), s.allocations(stays, moved, created)

	s.run("services", putDatabase, "NAME=placement")
	s.refuses("Placement lacks allocations of servers")
	s.saying("cmp1", "server created ("+created.ID+") lacks")
	s.saying("cmp2", "server moved ("+moved.ID+") lacks")
	s.providersOf("cmp2")
	for _, left := range []compute.Server{moved, deleted} {
		s.saying("cmp1", left.ID+" has")
		s.run("services", deleteAllocation, "CONSUMER="+left.ID)
	}
	for _, host := range []string{"cmp1", "cmp2"} {
		s.run("services", heal, "HOST="+host)
	}
	s.healthy()
	s.same("guests", guests, s.guestsOf(stays, moved, created))
	s.same("allocations", held, s.allocations(stays, moved, created))
	s.same("allocation of the deleted one", map[string]string{"deleted": "map[]"}, s.allocations(deleted))
	s.active(stays, moved, created)
	s.delete(stays, moved, created)
}

func (s *guideSite) placementIsLost() {
	one, two := s.server("one", "a-vf:1"), s.server("two", "a-pci-dev:1")
	guests, held := s.guestsOf(one, two), s.allocations(one, two)
	s.lose("placement")
	for _, host := range []string{"cmp1", "cmp2"} {
		s.providersOf(host)
		s.run("services", heal, "HOST="+host)
	}
	s.healthy()
	s.same("guests", guests, s.guestsOf(one, two))
	s.same("allocations", held, s.allocations(one, two))
	s.active(one, two)
	s.delete(one, two)
}

func (s *guideSite) computeIsOlder() {
	t := s.t
	stays, moved, deleted := s.server("stays", "a-vf:1"), s.server("moved", "a-vf:1"), s.server("deleted", "a-pci-dev:1")
	stopped := s.server("stopped", "a-pci-dev:1")
	s.run("services", copyDatabases)
	runs := s.guestsOf(stopped)
	s.act(stopped, "SHUTOFF", "os-stop", nil)
	from, to := *moved.Host, other(*moved.Host)
	moved = s.migrate(moved, to)
	created := s.server("created", "a-vf:1")
	s.delete(deleted)
	guests, held := s.guestsOf(stays, moved, created), s.allocations(stays, moved, created)
	untouched := func(when string) {
		t.Helper()
		s.same("guests "+when, guests, s.guestsOf(stays, moved, created))
		s.same("allocations "+when, held, s.allocations(stays, moved, created))
	}

	s.run("services", putDatabase, "NAME=compute")
	for _, host := range []string{"cmp1", "cmp2"} {
		s.saying(host, "compute's database lacks assignments that this host has followed")
	}
	s.refuses("does not follow compute's assignments")
	untouched("restored")
	shown := map[string]string{}
	for _, host := range []string{"cmp1", "cmp2"} {
		shown[host] = s.run(host, adopt)
	}
	s.shows(shown[*stays.Host], stays, "stays as it is")
	s.shows(shown[*stopped.Host], stopped, "is started or stopped, as compute records")
	s.shows(shown[*created.Host], created, "stays as it is, and a condition names it")
	s.shows(shown[to], moved, "stays as it is, and a condition names it")
	s.shows(shown[from], moved, "is not built, because its allocation is not here")
	s.saying(*created.Host, "berth agent destroy "+created.ID)
	s.saying(*created.Host, created.ID+" has")
	s.saying(to, "berth agent destroy "+moved.ID)
	s.until(deleted, "ERROR")
	eventually(t, "the stopped one is started", func() (bool, error) { return maps.Equal(s.guestsOf(stopped), runs), nil })
	eventually(t, "the release of the moved one waits", func() (bool, error) {
		why, stderr, _ := output(t, s.args("server", "why", moved.ID)...)
		return strings.Contains(why, "host "+to+" has a guest of this server"), fmt.Errorf("%s%s", why, stderr)
	})
	if now, err := s.compute.compute().Server(t.Context(), moved.ID); err != nil || *now.Host != from {
		t.Errorf("the moved one is on %v: %v", now.Place, err)
	}
	untouched("adopted")

	s.run(*created.Host, destroyGuest, "GUEST="+created.ID)
	s.run("services", deleteAllocation, "CONSUMER="+created.ID)
	s.run(to, destroyGuest, "GUEST="+moved.ID)
	s.delete(moved, deleted)
	s.healthy()
	s.same("guests", map[string]string{"stays": guests["stays"]}, s.guestsOf(stays))
	s.same("allocations", map[string]string{"stays": held["stays"], "moved": "map[]"}, s.allocations(stays, moved))
	s.active(stays, stopped)
	s.delete(stays, stopped)
}

// An older journal gives the device of a deleted server to it, and another server has it now.
func (s *guideSite) journalIsOlder() {
	t := s.t
	stays, deleted := s.serverOn("cmp1", "stays", "a-pci-dev:1"), s.serverOn("cmp1", "deleted", "a-pci-dev:1")
	s.run("cmp1", copyJournal)
	s.delete(deleted)
	created := s.serverOn("cmp1", "created", "a-pci-dev:1")
	guests, held := s.guestsOf(stays, created), s.allocations(stays, created)
	unchanged := func(when string) {
		t.Helper()
		s.healthy()
		s.same("guests "+when, guests, s.guestsOf(stays, created))
		s.same("allocations "+when, held, s.allocations(stays, created))
		s.active(stays, created)
	}
	s.run("cmp1", putJournal)
	unchanged("with an older journal")

	s.run("cmp1", putJournal) // it was restarted since the copy
	s.agents["cmp1"].endsSaying(t, "another start of the same journal", "this one can take its place in")
	must(t, os.Remove(s.data("cmp1", "agent", "journal")))
	s.systemctl("start", "agent", "cmp1")
	s.agents["cmp1"].endsSaying(t, "another agent serves host cmp1", "this one can take its place in")
	s.same("guests without a journal", guests, s.guestsOf(stays, created))

	s.shell("cmp1", "mv aside/journal data/agent/")
	s.rewriteMachine("cmp1")
	// it did not move with the directory, and is built again
	must(t, os.Remove(s.data("cmp1", "agent", "guests", created.ID+".json")))
	s.systemctl("start", "agent", "cmp1")
	s.agents["cmp1"].endsSaying(t, "was written on another machine", "berth agent adopt")
	s.run("cmp1", adopt)
	unchanged("on another machine")
	s.delete(stays, created)
}

// rewriteMachine makes the journal of a host that of another machine.
func (s *guideSite) rewriteMachine(host string) {
	s.t.Helper()
	j, err := journal.Open(s.data(host, "agent"))
	must(s.t, err)
	id, _ := j.State().Identity()
	id.Machine = "another"
	must(s.t, j.Write(id.Entry()))
	must(s.t, j.Close())
}

func (s *guideSite) everythingIsOlder() {
	t, hosts := s.t, []string{"cmp1", "cmp2"}
	stays, moved, deleted := s.server("stays", "a-vf:1"), s.server("moved", "a-pci-dev:1"), s.server("deleted",
		"a-pci-dev:1")
	for _, host := range hosts {
		s.run(host, copyJournal)
	}
	s.run("services", copyDatabases)
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
	s.saying(*created.Host, "berth agent destroy "+created.ID)
	s.saying(to, "berth agent destroy "+moved.ID)
	s.saying(from, "guest not built: host "+to+" has a guest of this server")
	eventually(t, "the deleted one is built again",
		func() (bool, error) { return s.guestsOf(deleted)["deleted"] != "", nil })
	s.same("guests", guests, s.guestsOf(stays, moved, created))

	s.run(to, destroyGuest, "GUEST="+moved.ID)
	s.run(*created.Host, destroyGuest, "GUEST="+created.ID)
	eventually(t, "the moved one is built on its old host",
		func() (bool, error) { return strings.HasPrefix(s.guestsOf(moved)["moved"], from), nil })
	s.healthy()
	s.same("guests", map[string]string{"stays": guests["stays"], "created": ""}, s.guestsOf(stays, created))
	s.same("allocations", held, s.allocations(stays))
	s.active(stays, moved, deleted)
	s.delete(moved, deleted)
}

// Compute's database is made anew, and cmp2 has lost its journal, too.
func (s *guideSite) computeIsLost() {
	t := s.t
	stays, far := s.server("left", "a-vf:1"), s.serverOn("cmp2", "far", "a-vf:1")
	guests, held := s.guestsOf(stays, far), s.allocations(stays, far)
	s.systemctl("stop", "agent", "cmp2")
	must(t, os.Remove(s.data("cmp2", "agent", "journal")))
	s.lose("compute")
	s.systemctl("start", "agent", "cmp2")
	s.saying("cmp1", "the assignments are those of another cloud")
	s.run("cmp1", adopt)
	for _, one := range []compute.Server{stays, far} {
		s.saying(*one.Host, "berth agent destroy "+one.ID)
		s.saying(*one.Host, one.ID+" has")
	}
	s.active(s.serverOn("cmp1", "new1", "a-vf:1"), s.serverOn("cmp2", "new2", "a-vf:1"))
	s.same("guests", guests, s.guestsOf(stays, far))
	s.same("allocations", held, s.allocations(stays, far))
}

// lose makes the database of a service anew.
func (s *guideSite) lose(name string) {
	s.t.Helper()
	s.systemctl("stop", name, "services")
	if s.kind == "sqlite" {
		must(s.t, os.Remove(s.data("services", name+".db")))
	} else {
		s.shell("services", fmt.Sprintf("mariadb -e 'DROP DATABASE %[1]s; CREATE DATABASE %[1]s'", name))
	}
	s.systemctl("start", name, "services")
}

// providersOf waits until the agent of a host has made the providers of its four kinds of devices.
func (s *guideSite) providersOf(host string) {
	s.t.Helper()
	p := s.placement.placement()
	eventually(s.t, host+" has its providers", func() (bool, error) {
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

// migrate moves a server to a host and confirms that.
func (s *guideSite) migrate(server compute.Server, to string) compute.Server {
	s.t.Helper()
	return s.on(to, s.act(s.arrived(to, s.act(server, "VERIFY_RESIZE", "migrate", map[string]any{"host": to})), "ACTIVE",
		"confirmResize", nil))
}

// serverOn makes a server on a host.
func (s *guideSite) serverOn(host, name, alias string) compute.Server {
	s.t.Helper()
	server := s.server(name, alias)
	if server.Host != nil && *server.Host != host {
		server = s.migrate(server, host)
	}
	return s.on(host, server)
}

// healthy waits until no host has a condition, and wants preflight to agree and a new server to be built.
func (s *guideSite) healthy() {
	s.t.Helper()
	for _, host := range []string{"cmp1", "cmp2"} {
		eventually(s.t, host+" has no condition", func() (bool, error) {
			return s.conditions(host) == "", fmt.Errorf("%s",
				s.conditions(host))
		})
	}
	s.run("services", look)
	probe := s.server("probe", "a-vf:1")
	s.active(probe)
	s.delete(probe)
}

// refuses wants a new server to find no host for this reason.
func (s *guideSite) refuses(why string) {
	s.t.Helper()
	probe := s.server("refused", "a-vf:1")
	if probe.Status != "ERROR" || probe.Fault == nil || !strings.Contains(probe.Fault.Message, why) {
		s.t.Errorf("a new server is %s: %+v", probe.Status, probe.Fault)
	}
	s.delete(probe)
}

// shows wants an adoption to have said this of a server.
func (s *guideSite) shows(text string, server compute.Server, then string) {
	s.t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, server.ID) && strings.Contains(line, "  "+then) {
			return
		}
	}
	s.t.Errorf("of %s it is not said that it %s:\n%s", server.Name, then, text)
}

// guestsOf is the host and the file of the guest of each server, by name; of a server with guests on two hosts, both.
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

// allocations is what Placement has of each server, by name.
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

// same compares what was with what is.
func (s *guideSite) same(what string, was, is map[string]string) {
	s.t.Helper()
	for name, text := range is {
		if text != was[name] {
			s.t.Errorf("%s: %s was\n%s\nand is\n%s", what, name, was[name], text)
		}
	}
}

// until waits for a status of a server.
func (s *guideSite) until(server compute.Server, status string) {
	s.t.Helper()
	eventually(s.t, server.Name+" is "+status, func() (bool, error) {
		now, err := s.compute.compute().Server(s.t.Context(), server.ID)
		return now.Status == status, err
	})
}

// active wants servers to be ACTIVE.
func (s *guideSite) active(servers ...compute.Server) {
	s.t.Helper()
	for _, server := range servers {
		now, err := s.compute.compute().Server(s.t.Context(), server.ID)
		if err != nil || now.Status != "ACTIVE" {
			s.t.Errorf("%s is %s with %+v: %v", server.Name, now.Status, now.Fault, err)
		}
	}
}
