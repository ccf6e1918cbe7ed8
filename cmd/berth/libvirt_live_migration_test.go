package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/linuxguest"
	"github.com/openberth/berth/internal/testenv"
)

// counter is the user data of the guest. It writes a mark to its disk, beyond the image, and then prints the number of
// seconds that it has counted, with the mark that it reads from the disk.
const counter = `#!/bin/sh
printf 'written-once' >/tmp/mark
dd if=/tmp/mark of=/dev/vda bs=1M seek=600 2>/dev/null
sync
(
	n=0
	while :; do
		n=$((n + 1))
		echo 3 >/proc/sys/vm/drop_caches
		echo "count $n $(dd if=/dev/vda bs=1M skip=600 count=1 2>/dev/null | head -c 12)" >/dev/ttyS0
		sleep 1
	done
) &
`

var counted = regexp.MustCompile(`(?m)^count ([0-9]+) written-once\r?$`)

// A Linux guest of two agents and two real libvirtd is migrated live by `berth server migrate --live`, and back. It
// continues to count, and its disk has what it has written. When the libvirtd of the destination is killed during a
// migration, it runs on at the source. kill -9 of the agent of the destination changes nothing. When the agent of the
// source is killed, the migration is completed later. An aborted migration leaves nothing at the destination, and a
// slow one is forced to complete.
func TestLibvirtLiveMigration(t *testing.T) {
	t.Parallel()
	a, b := libvirtd.StartPair(t)
	m := newMigrationLab(t, a, b, buildLinux(t))
	m.startAgents("")
	s := m.startCounter()
	from, to := "cmp1", "cmp2"
	if *s.Host == to {
		from, to = to, from
	}
	first := m.console(t, from, s.ID, 3)

	n := m.migrate(s, from, to, first)
	n = m.migrate(s, to, from, n)

	slow := "live_migration_bandwidth = 1\n"
	m.startAgents(slow)
	if err := m.compute.compute().Act(t.Context(), s.ID, "os-migrateLive", migrateTo(to)); err != nil {
		t.Fatal(err)
	}
	m.awaitCopying(to, s.ID)
	m.hosts[to].Stop(t)
	testenv.Until(t, "the source reports the failure", func() (bool, error) {
		out, _ := m.berth(0, "server", "why", "counter")
		return strings.Contains(out, "The live migration failed on "+from), fmt.Errorf("%s", out)
	})
	n = m.console(t, from, s.ID, n+10)
	m.hosts[to].Resume(t)
	m.awaitOn(from, s.ID)
	m.awaitNoGuest(to, s.ID)
	m.awaitHypervisor(to)

	n = m.abort(s, from, to, n)
	n = m.force(s, from, to, n)
	from, to = to, from

	if err := m.compute.compute().Act(t.Context(), s.ID, "os-migrateLive", migrateTo(to)); err != nil {
		t.Fatal(err)
	}
	m.awaitCopying(to, s.ID)
	copying, err := m.lookup(to, s.ID)
	must(t, err)
	m.killAndRestart(to)
	if now, err := m.lookup(to, s.ID); err != nil || now != copying {
		t.Errorf("kill -9 of the agent of the destination ended the migration: %+v %v", now, err)
	}
	m.agents[from].kill()
	delete(m.agents, from)
	m.startAgent(from, m.conf(from, ""))
	m.awaitOn(to, s.ID)
	m.console(t, to, s.ID, n+3)
	m.awaitNoGuest(from, s.ID)
	m.delete(s)
	m.awaitNoGuest(to, s.ID)
}

// migrationLab is a fleet with two hosts that have libvirtd.
type migrationLab struct {
	*fleet
	hosts     map[string]*libvirtd.Daemon
	instances map[string]string
	image     string // UUID
	services  string // lines of the configuration
}

// buildLinux returns what writes the disk image of a small Linux guest to a file.
func buildLinux(t *testing.T) func(disk string) error {
	return func(disk string) error { return linuxguest.Build(t.Context(), disk) }
}

// newMigrationLab starts the services, with an image that build writes to a file.
func newMigrationLab(t *testing.T, a, b *libvirtd.Daemon, build func(disk string) error) *migrationLab {
	t.Helper()
	dir := t.TempDir()
	images := start(t, []string{"image"}, "image", "--config-file", machineless(t, dir), "--data-dir", dir+"/images",
		"--listen", "127.0.0.1:0")
	services := "[glance]\nendpoint_override = " + images.urls["image"] + "\n"
	m := &migrationLab{fleet: newFleet(t, services), hosts: map[string]*libvirtd.Daemon{"cmp1": a, "cmp2": b},
		instances: map[string]string{}, services: services}
	for name, daemon := range m.hosts {
		m.instances[name] = daemon.GuestDir(t)
		must(t, os.Symlink(daemon.Socket, m.path("libvirt-"+daemon.Address)))
	}
	disk := dir + "/linux.img"
	must(t, build(disk))
	out, errs, status := output(t, "image", "add", disk, "--name", "linux", "--visibility", "public", "--image-url",
		images.urls["image"], "-o", "json")
	var image struct{ ID string }
	if err := json.Unmarshal([]byte(out), &image); err != nil || status != 0 {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	m.image = image.ID
	t.Cleanup(func() {
		for name, agent := range m.agents {
			if t.Failed() {
				t.Logf("the agent of %s:\n%s", name, agent.log)
			}
		}
	})
	return m
}

// conf writes the configuration of a host.
func (m *migrationLab) conf(name, options string) string {
	m.t.Helper()
	machine := m.path("machine.txtar")
	writeFile(m.t, machine, "A machine without devices.\n-- bus/pci/devices/none --\n")
	return m.file(name, fmt.Sprintf("[DEFAULT]\nhost = %s\ncompute_driver = libvirt.LibvirtDriver\n"+
		"instances_path = %s\nshutdown_timeout = 0\n[libvirt]\nvirt_type = qemu\n"+
		"connection_uri = qemu+unix:///system?socket=%s\nlive_migration_uri = qemu+unix:///system?socket=%s\n"+
		"live_migration_inbound_addr = %s\n%s[oslo_concurrency]\nlock_path = %s\n[berth]\nsysfs = %s\n"+
		"rescan_interval = 3600\n%s", name, m.instances[name], m.hosts[name].Socket, m.path("libvirt-%s"),
		m.hosts[name].Address, options, m.path("locks"), machine, m.services))
}

// startAgents starts both agents, with lines of [libvirt].
func (m *migrationLab) startAgents(options string) {
	m.t.Helper()
	for name := range m.hosts {
		m.startAgent(name, m.conf(name, options))
	}
}

// startCounter creates a server that counts.
func (m *migrationLab) startCounter() compute.Server {
	t := m.t
	t.Helper()
	c := m.compute.compute()
	flavor, err := c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "linux", VCPUs: 1, RAM: 256, Disk: 1})
	must(t, err)
	body := fmt.Sprintf(`{"server": {"name": "counter", "flavorRef": %q, "imageRef": %q, "user_data": %q,
		"networks": "none"}}`, flavor.ID, m.image, base64.StdEncoding.EncodeToString([]byte(counter)))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.compute.urls["compute"]+"/v2.1/servers",
		strings.NewReader(body))
	must(t, err)
	request.Header.Set("X-Auth-Token", "admin")
	request.Header.Set("OpenStack-API-Version", "compute 2.37")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	var made struct{ Server compute.Server }
	if err := json.Unmarshal(text, &made); err != nil || response.StatusCode >= 300 {
		t.Fatalf("%d %s", response.StatusCode, text)
	}
	var s compute.Server
	testenv.Until(t, "the server is ACTIVE", func() (bool, error) {
		s, err = c.Server(t.Context(), made.Server.ID)
		if s.Status == "ERROR" {
			t.Fatalf("%+v", s.Fault)
		}
		return s.Status == "ACTIVE", err
	})
	return s
}

// console waits until the guest has counted to a number on a host, and returns the last one. On one host it counts
// without a gap.
func (m *migrationLab) console(t *testing.T, host, id string, least int) (last int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			m.logProcessor(t, host, id)
		}
	}()
	testenv.Until(t, fmt.Sprintf("the guest has counted to %d on %s", least, host), func() (bool, error) {
		text, err := os.ReadFile(filepath.Join(m.instances[host], id, "console.log"))
		for _, line := range counted.FindAllStringSubmatch(string(text), -1) {
			last, _ = strconv.Atoi(line[1])
		}
		if last >= least {
			return true, nil
		}
		domain, lookup := m.lookup(host, id)
		return false, fmt.Errorf("%d: %w: the console ends with %q; the domain is %+v: %w", last, err,
			text[max(0, len(text)-200):], domain, lookup)
	})
	return last
}

// logProcessor logs twice what the emulated processor of a guest does, which shows whether the guest waits or hangs.
func (m *migrationLab) logProcessor(t *testing.T, host, id string) {
	t.Helper()
	domain, err := m.lookup(host, id)
	if err != nil {
		t.Logf("the guest on %s: %v", host, err)
		return
	}
	for range 2 {
		for _, command := range []string{"info status", "info cpus", "info registers", "info lapic"} {
			out, err := m.hosts[host].Command(t.Context(), "virsh", "-c", "qemu:///system", "qemu-monitor-command", "--hmp",
				domain.Name, command).CombinedOutput()
			t.Logf("%s of the guest on %s: %v\n%s", command, host, err, out)
		}
		time.Sleep(time.Second)
	}
}

// migrate migrates the server with the command, and returns how far it has counted afterwards.
func (m *migrationLab) migrate(s compute.Server, from, to string, above int) (last int) {
	t := m.t
	t.Helper()
	m.run(0, "", "server", "migrate", "counter", "--live", "--host", to, "--wait")
	m.awaitOn(to, s.ID)
	last = m.console(t, to, s.ID, above+3)
	text, err := os.ReadFile(filepath.Join(m.instances[to], s.ID, "console.log"))
	if err != nil || strings.Contains(string(text), linuxguest.Ready) && above > 0 && from == "cmp1" {
		t.Errorf("the guest was started again: %v", err)
	}
	m.awaitNoGuest(from, s.ID)
	return last
}

// abort aborts a slow migration of the server, which stays where it is, and returns how far it has counted afterwards.
func (m *migrationLab) abort(s compute.Server, from, to string, above int) (last int) {
	m.t.Helper()
	must(m.t, m.compute.compute().Act(m.t.Context(), s.ID, "os-migrateLive", migrateTo(to)))
	m.awaitCopying(to, s.ID)
	m.run(0, "", "server", "migration", "abort", "counter")
	m.awaitOn(from, s.ID)
	m.wantMigration(s.ID, "cancelled")
	m.awaitNoGuest(to, s.ID)
	return m.console(m.t, from, s.ID, above+3)
}

// force forces a slow migration of the server to complete, and returns how far it has counted afterwards.
func (m *migrationLab) force(s compute.Server, from, to string, above int) (last int) {
	m.t.Helper()
	must(m.t, m.compute.compute().Act(m.t.Context(), s.ID, "os-migrateLive", migrateTo(to)))
	m.awaitCopying(to, s.ID)
	m.run(0, "", "server", "migration", "force-complete", "counter")
	m.awaitPaused(from, s.ID)
	m.awaitOn(to, s.ID)
	m.wantMigration(s.ID, "completed")
	last = m.console(m.t, to, s.ID, above+3)
	m.awaitNoGuest(from, s.ID)
	return last
}

// wantMigration checks the status of the newest move of a server.
func (m *migrationLab) wantMigration(id, status string) {
	m.t.Helper()
	list, err := m.compute.compute().Migrations(m.t.Context(), id)
	if err != nil || len(list) == 0 || list[0].Status != status {
		m.t.Errorf("the migration is not %s: %+v %v", status, list, err)
	}
}

// awaitPaused waits until the domain of a server is paused on a host.
func (m *migrationLab) awaitPaused(host, id string) {
	m.t.Helper()
	testenv.Until(m.t, "the guest is paused on "+host, func() (bool, error) {
		c, err := rpc.Dial(m.t.Context(), m.hosts[host].Socket, "qemu:///system", 0)
		if err != nil {
			return false, err
		}
		defer c.Close()
		found, err := c.Lookup(m.t.Context(), uuid.MustParse(id))
		if err != nil {
			return false, err
		}
		state, _, err := c.State(m.t.Context(), found)
		return state == rpc.Paused, err
	})
}

func migrateTo(host string) map[string]any {
	return map[string]any{"host": host, "block_migration": "auto"}
}

// awaitOn waits until the server is ACTIVE on a host.
func (m *migrationLab) awaitOn(host, id string) {
	m.t.Helper()
	testenv.Until(m.t, "the server is on "+host, func() (bool, error) {
		now, err := m.compute.compute().Server(m.t.Context(), id)
		if err == nil {
			why, _ := m.berth(0, "server", "why", "counter")
			err = errors.New(why)
		}
		return now.Status == "ACTIVE" && now.TaskState == nil && now.Host != nil && *now.Host == host, err
	})
}

// awaitHypervisor waits until a host whose libvirtd was started again is offered for servers.
func (m *migrationLab) awaitHypervisor(name string) {
	m.t.Helper()
	testenv.Until(m.t, "libvirtd of "+name+" answers its agent", func() (bool, error) {
		list, err := m.compute.hosts().Hosts(m.t.Context())
		for _, h := range list {
			if h.Host == name {
				return h.Down == "", errors.New(h.Down)
			}
		}
		return false, err
	})
}

// lookup returns the domain of a server on a host.
func (m *migrationLab) lookup(host, id string) (rpc.Domain, error) {
	m.t.Helper()
	c, err := rpc.Dial(m.t.Context(), m.hosts[host].Socket, "qemu:///system", 0)
	if err != nil {
		return rpc.Domain{}, err
	}
	defer c.Close()
	return c.Lookup(m.t.Context(), uuid.MustParse(id))
}

// awaitCopying waits until the domain of a server receives its memory on a host.
func (m *migrationLab) awaitCopying(host, id string) {
	m.t.Helper()
	testenv.Until(m.t, "the guest is being copied", func() (bool, error) {
		found, err := m.lookup(host, id)
		return err == nil && found.ID >= 0, err
	})
}

// awaitNoGuest waits until a host has neither the domain of a server nor files.
func (m *migrationLab) awaitNoGuest(host, id string) {
	m.t.Helper()
	testenv.Until(m.t, "nothing of the server is on "+host, func() (bool, error) {
		found, err := m.lookup(host, id)
		_, files := os.Stat(filepath.Join(m.instances[host], id))
		return fault.Is(err, fault.NotFound) && os.IsNotExist(files), fmt.Errorf("%+v %w %w", found, err, files)
	})
}
