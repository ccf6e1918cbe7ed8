package main

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// packagesOf builds the package of a kind for this machine's architecture, as versions of the same commit.
func packagesOf(t *testing.T, kind string, versions ...string) (dir string) {
	t.Helper()
	dir = memory(t)
	for _, version := range versions {
		must(t, run(filepath.Join(dir, version), version, []string{runtime.GOARCH}, []string{kind}))
	}
	return dir
}

const allUnits = "berth berth-placement berth-compute berth-network berth-image berth-audit berth-console " +
	"berth-agent"

// A package is installed on a fresh Debian as the guide says, upgraded and downgraded while clients send requests,
// removed and purged.
func TestInstalledPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make packages-test: needs root, systemd-nspawn and mmdebstrap")
	}
	const older, newer = "0.0.1~1", "0.0.1~2"
	blocks := blocksOf(t, "packages.md", "machine")
	m := boot(t, packagesOf(t, "deb", older, newer))
	m.run("cp /packages/" + older + "/*.deb .\n" + blocks[0])
	m.nothingRuns()
	m.checkUnits()
	if out := m.run(blocks[1]); !strings.Contains(out, "ACTIVE") {
		t.Fatalf("the server is not ACTIVE:\n%s", out)
	}
	clients := m.startClients()
	m.install(newer, "berth")
	m.install(older, "berth")
	clients.stop()

	m.restartsAfterKill("berth")
	// The services alone serve their own state: the cloud of `berth up` is not theirs.
	m.run(`systemctl disable --now berth
cat >>/etc/berth/agent.conf <<'END'
[DEFAULT]
compute_driver = fake.FakeDriver
END
` + strings.Join(blocksOf(t, "packages.md", "services"), "") + `
berth flavor create small --vcpus 1 --ram 512
berth server create alone --flavor small --wait`)
	m.install(newer, "berth-compute")
	if out := m.run("berth server list"); !strings.Contains(out, "alone") || strings.Contains(out, "web") {
		t.Errorf("servers of the services alone:\n%s", out)
	}
	m.restartsAfterKill("berth-compute")
	m.servesConsole()

	m.run("apt-get remove -y berth")
	out := m.run("systemctl list-units --all --no-legend 'berth*'; ls /etc/systemd/system/multi-user.target.wants")
	if strings.Contains(out, "berth") {
		t.Errorf("units after the removal:\n%s", out)
	}
	m.run("test -s /var/lib/berth/up/compute.db -a -s /etc/berth/berth.conf")
	m.run("apt-get install -y /packages/" + newer + "/berth_*.deb\nsystemctl start berth")
	if out := m.run("berth server list"); !strings.Contains(out, "web") {
		t.Errorf("the server is lost after a removal:\n%s", out)
	}
	m.run("apt-get purge -y berth\ntest ! -e /var/lib/berth\ntest ! -e /etc/berth\ntest ! -e /var/log/berth\nid berth")
}

// `berth init` uses the unit of the package: it starts it, completes what is missing, and its undo leaves the
// configuration as the package has it.
func TestInitWithUnit(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make packages-test: needs root, systemd-nspawn and mmdebstrap")
	}
	const version = "0.0.1~1"
	m := boot(t, packagesOf(t, "deb", version))
	m.run("apt-get install -y /packages/" + version + "/berth_*.deb")
	before := m.run("sha256sum /etc/berth/*")
	m.run("berth init --driver fake")
	out := m.run("systemctl is-enabled berth; systemctl is-active berth; berth init; berth flavor list; " +
		"berth server create web --flavor small --wait; berth server list")
	for _, part := range []string{"enabled", "active", "nothing to do", "xlarge", "ACTIVE"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q:\n%s", part, out)
		}
	}
	m.restartsAfterKill("berth")
	if out, err := m.output("berth init --undo"); err == nil || !strings.Contains(out, "--force") {
		t.Errorf("undo with a server: %v %s", err, out)
	}
	m.run("berth init --undo --force")
	m.nothingRuns()
	if after := m.run("sha256sum /etc/berth/*"); after != before {
		t.Errorf("the configuration has changed:\n%s\n%s", before, after)
	}
	m.run("test ! -e /var/lib/berth/up; test ! -e /root/.config/openstack/clouds.yaml")
}

// A package with RPM is installed, upgraded and removed by rpm, without its check of dependencies: the machine is a
// Debian, whose rpm knows no other packages. State and configuration survive.
func TestInstalledRPM(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make packages-test: needs root, systemd-nspawn and mmdebstrap")
	}
	const older, newer = "0.0.1~1", "0.0.1~2"
	m := boot(t, packagesOf(t, "rpm", older, newer))
	rpm := func(args string) { m.t.Helper(); m.run("rpm --force-debian --nodeps " + args) }
	rpm("-i /packages/" + older + "/*.rpm")
	m.nothingRuns()
	m.checkUnits()
	m.run("test \"$(stat -c %G:%a /etc/berth/berth.conf)\" = berth:640")
	if out := m.run(blocksOf(t, "packages.md", "machine")[1]); !strings.Contains(out, "ACTIVE") {
		t.Fatalf("the server is not ACTIVE:\n%s", out)
	}
	before := m.run("systemctl show -P MainPID berth")
	rpm("-U /packages/" + newer + "/*.rpm")
	if out := m.run("berth --version\nberth server list"); !strings.Contains(out, newer) || !strings.Contains(out, "web") {
		t.Errorf("after the upgrade:\n%s", out)
	}
	if after := m.run("systemctl is-active berth\nsystemctl show -P MainPID berth"); strings.Contains(after, before) {
		t.Errorf("berth was not restarted: %s", after)
	}
	rpm("-e berth")
	m.run("test -s /var/lib/berth/up/compute.db -a -s /etc/berth/berth.conf.rpmsave -a ! -e /usr/bin/berth")
	if out, _ := m.output("systemctl is-active berth"); strings.TrimSpace(out) != "inactive" {
		t.Errorf("berth is %s after the removal", out)
	}
}

// nothingRuns checks that the installation has started and enabled nothing, and listens nowhere.
func (m *machine) nothingRuns() {
	m.t.Helper()
	out := m.run("for unit in " + allUnits +
		"; do systemctl is-enabled $unit || true; systemctl is-active $unit || true; done")
	for state := range strings.Lines(out) {
		if state != "disabled\n" && state != "inactive\n" {
			m.t.Errorf("a unit is %s", state)
		}
	}
	// State 0A is LISTEN.
	if out := m.run("grep -h ' 0A ' /proc/net/tcp /proc/net/tcp6 || true"); out != "" {
		m.t.Errorf("after the installation something listens:\n%s", out)
	}
}

// servesConsole enables the unit of the console, and checks that it answers on loopback only, for the cloud of the file
// that it reads, as a user without rights.
func (m *machine) servesConsole() {
	m.t.Helper()
	m.run(`cat >/etc/berth/clouds.yaml <<'END'
clouds:
  berth:
    auth_type: admin_token
    auth: {token: admin, endpoint: "http://127.0.0.1:8774/v2.1"}
    compute_endpoint_override: "http://127.0.0.1:8774/v2.1"
    placement_endpoint_override: "http://127.0.0.1:8778"
END
chgrp berth /etc/berth/clouds.yaml
chmod 640 /etc/berth/clouds.yaml
systemctl enable --now berth-console`)
	out := m.run(`awk '/:224C .* 0A / {print $2}' /proc/net/tcp /proc/net/tcp6
bash -c 'exec 3<>/dev/tcp/127.0.0.1/8780; printf "GET /sign-in HTTP/1.0\r\nHost: 127.0.0.1:8780\r\n\r\n" >&3; cat <&3'
grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/$(systemctl show -P MainPID berth-console)/status
stat -c %U /proc/$(systemctl show -P MainPID berth-console)`)
	for _, part := range []string{"0100007F:224C\n", " 200 OK", "NoNewPrivs:\t1", "Seccomp:\t2",
		"CapEff:\t0000000000000000", "\nberth\n"} {
		if !strings.Contains(out, part) {
			m.t.Errorf("the console: no %q in:\n%s", part, out)
		}
	}
	if strings.Count(out, ":224C\n") != 1 {
		m.t.Errorf("the console listens at other addresses than that of loopback:\n%s", out)
	}
	m.restartsAfterKill("berth-console")
}

// checkUnits checks the units with systemd itself. The exposure of a unit is from 0 to 10.
func (m *machine) checkUnits() {
	m.t.Helper()
	if out := m.run("systemd-analyze verify --man=no /usr/lib/systemd/system/berth*.service"); out != "" {
		m.t.Errorf("systemd-analyze verify:\n%s", out)
	}
	m.run("systemd-analyze security --no-pager --threshold=15 berth-placement berth-compute berth-network berth-image " +
		"berth-audit berth-console")
	m.run("systemd-analyze security --no-pager --threshold=36 berth berth-agent")
}

// install installs a version over another one, and checks that this unit runs it.
func (m *machine) install(version, unit string) {
	m.t.Helper()
	before := m.run("systemctl show -P MainPID " + unit)
	m.run("apt-get install -y --allow-downgrades /packages/" + version + "/berth_*.deb")
	if out := m.run("berth --version"); !strings.Contains(out, version) {
		m.t.Errorf("%s is installed instead of %s", out, version)
	}
	after := m.run("systemctl is-active " + unit + "\nsystemctl show -P MainPID " + unit)
	if strings.Contains(after, before) {
		m.t.Errorf("%s was not restarted: %s", unit, after)
	}
	for other := range strings.FieldsSeq(allUnits) {
		if strings.HasPrefix(other, "berth-") == strings.HasPrefix(unit, "berth-") {
			continue
		}
		if out, _ := m.output("systemctl is-active " + other); strings.TrimSpace(out) != "inactive" {
			m.t.Errorf("the upgrade has started %s: %s", other, out)
		}
	}
}

// restartsAfterKill checks that systemd starts a unit again whose process was killed.
func (m *machine) restartsAfterKill(unit string) {
	m.t.Helper()
	m.run("kill -KILL $(systemctl show -P MainPID " + unit + ")\n" +
		"i=0; until test $(systemctl show -P NRestarts " + unit + ") -ge 1 && systemctl is-active " + unit +
		"; do i=$((i + 1)); test $i -lt 100; sleep 0.3; done")
}

// clients are programs on the machine that create servers, then read one, until they are stopped.
type clients struct {
	m     *machine
	ended chan string
}

// clientScript writes the name of each server that was created, and each failure that is not one of the connection.
const clientScript = `n=0
while [ ! -e /run/stop ]; do
	n=$((n + 1))
	if [ $n -gt 50 ]; then # the host has 64 VCPUs
		set -- server show load-1
	else
		set -- server create load-$n --flavor small
	fi
	if out=$(berth "$@" 2>&1); then
		[ "$2" = show ] || echo "created load-$n"
	else
		case $out in
		*'does not answer'* | *'connection refused'* | *'connection reset'* | *EOF*) ;;
		*) echo "failed: $out" ;;
		esac
	fi
	sleep 0.05
done`

// startClients starts the clients, and waits until they have created a server.
func (m *machine) startClients() *clients {
	m.t.Helper()
	c := &clients{m: m, ended: make(chan string, 1)}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	m.t.Cleanup(cancel)
	go func() {
		out, err := m.command(ctx, clientScript).CombinedOutput()
		if err != nil {
			out = append(out, "failed: "+err.Error()...)
		}
		c.ended <- string(out)
	}()
	m.run("i=0; until berth server list | grep -q load-1; do i=$((i + 1)); test $i -lt 100; sleep 0.1; done")
	return c
}

// stop ends the clients, and checks that no request has failed, and that every server that was created is there.
func (c *clients) stop() {
	m := c.m
	m.t.Helper()
	m.run("berth server create last --flavor small --wait\ntouch /run/stop")
	out := <-c.ended
	list := m.run("berth server list -o json")
	created := 0
	for line := range strings.Lines(out) {
		name, is := strings.CutPrefix(strings.TrimSpace(line), "created ")
		if !is {
			m.t.Errorf("a request failed: %s", line)
			continue
		}
		created++
		if !strings.Contains(list, `"`+name+`"`) {
			m.t.Errorf("%s was created and is lost", name)
		}
	}
	if !strings.Contains(list, `"web"`) || created < 3 {
		m.t.Errorf("%d servers were created; the list:\n%.2000s", created, list)
	}
	m.t.Logf("%d servers were created during an upgrade and a downgrade", created)
}
