package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// packagesOn returns the packages that a page of the guide names for a machine.
func packagesOn(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/guide/" + page)
	must(t, err)
	found := regexp.MustCompile(`(?m)^apt-get install -y --no-install-recommends ((?:[a-z0-9 -]|\\\n)+)$`).
		FindStringSubmatch(string(text))
	if found == nil {
		t.Fatalf("%s does not name the packages; adapt the test", page)
	}
	return strings.Fields(strings.ReplaceAll(found[1], "\\\n", " "))
}

// blocksOf returns the blocks of a page of the guide for a machine, such as "first".
func blocksOf(t *testing.T, page, name string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/guide/" + page)
	must(t, err)
	var blocks []string
	for _, found := range regexp.MustCompile("(?s)\n```sh "+name+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, found[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no block for the machine %s", page, name)
	}
	return blocks
}

// The guide's first chapter, and the section on several machines, on fresh machines: a Debian with the packages that
// the page names, Debian's libvirt, and the units of the package. Three commands lead to a server that answers by ssh.
// Then a cloud for several machines, a second machine that joins it, and a server there, which the first machine
// reaches over a VXLAN. Undo and purge leave nothing.
func TestThreeCommandsToSSH(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make packages-test: needs root, systemd-nspawn and mmdebstrap")
	}
	const version = "0.0.1~1"
	system := system{name: "hosts", packages: packagesOn(t, "1-try-it.md"), guests: true}
	debian(t, system)
	packages := packagesOf(t, "deb", version)
	began := time.Now()
	step := func(what string) {
		t.Logf("%-40s %3.0f s", what, time.Since(began).Seconds())
		began = time.Now()
	}
	one := bootAs(t, system, "one", packages)
	links := one.run("ls /sys/class/net")
	step("machine started")
	try := blocksOf(t, "1-try-it.md", "machine")
	first, then := blocksOf(t, "2-small-cloud.md", "first"), blocksOf(t, "2-small-cloud.md", "then")
	one.run("cp /packages/" + version + "/*.deb .\n" + try[0])
	step("package installed")
	for line := range strings.Lines(try[1]) {
		out := one.run(line)
		step(strings.TrimSpace(line))
		if strings.HasPrefix(line, "berth launch") {
			one.ssh("web", addressOf(t, out))
			step("ssh answers")
		}
	}
	one.isUsed("berth")
	if out := one.run("berth init"); !strings.Contains(out, "nothing to do") {
		t.Errorf("a second init changes something:\n%s", out)
	}
	one.run("berth init --undo --force")
	one.nothingOfBerth()
	step("undone")

	two := bootAs(t, system, "two", packages)
	wire(t, one, two)
	two.run("cp /packages/" + version + "/*.deb .\n" + try[0])
	out := one.run(first[0])
	two.run(out[strings.LastIndex(out, "berth init --join "):])
	step("second machine started and joined")
	one.run("berth host disable two --os-cloud berth-admin")
	here := addressOf(t, one.run(then[0]))
	one.run("berth host enable two --os-cloud berth-admin\nberth host disable one --os-cloud berth-admin")
	there := addressOf(t, one.run("berth launch there --image debian"))
	if out := one.run("berth server show there --os-cloud berth-admin"); !strings.Contains(out, " two\n") {
		t.Errorf("the server is not on the second machine:\n%s", out)
	}
	one.ssh("there", there)
	step("server on the second machine, ssh from the first")
	key := one.run("cat .ssh/id_ed25519")
	two.run("mkdir -p .ssh\numask 077\ncat >.ssh/id_ed25519 <<'END'\n" + key + "END")
	two.ssh("a", here)
	two.isUsed("berth-agent")
	one.moves(two, "there", there)
	step("server moved live to the first machine and back")

	if out, err := two.output("berth init --undo"); err == nil || !strings.Contains(out, "1 guest") {
		t.Errorf("undo with a guest: %v %s", err, out)
	}
	one.run(blocksOf(t, "2-small-cloud.md", "moves")[0])
	if out := one.run("berth server list --os-cloud berth-admin -c NAME -c HOST"); strings.Contains(out, " two") {
		t.Errorf("a server is on the host that was drained:\n%s", out)
	}
	one.ssh("a", here)
	one.ssh("there", there)
	step("servers moved as the guide says")
	one.run("berth server delete a there --wait")
	two.run("rm .ssh/id_ed25519\nberth init --undo")
	one.run("berth host forget two --wait --os-cloud berth-admin")
	if out := one.run("berth host list --os-cloud berth-admin"); strings.Contains(out, "\ntwo ") {
		t.Errorf("the second machine is still a host:\n%s", out)
	}
	one.run("berth init --undo --force")
	for _, m := range []*machine{one, two} {
		m.nothingOfBerth()
		m.run("apt-get purge -y berth\ntest ! -e /var/lib/berth\ntest ! -e /etc/berth")
	}
	one.run("ip link delete wire")
	if now := one.run("ls /sys/class/net"); now != links {
		t.Errorf("links remain: %s, before: %s", now, links)
	}
	step("undone and purged")
}

// moves moves a server of another machine live to this one, and back. It runs on meanwhile. libvirt of both accepts
// neither clients without a certificate nor connections to other addresses.
func (m *machine) moves(other *machine, name, address string) {
	m.t.Helper()
	const booted = "cat /proc/sys/kernel/random/boot_id"
	ssh := "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes root@" +
		address + " " + booted
	before := m.run(ssh)
	m.run("berth host enable one --os-cloud berth-admin")
	for _, host := range []string{"one", "two"} {
		m.run("berth server migrate " + name + " --live --host " + host + " --wait --os-cloud berth-admin")
		m.ssh(name, address)
		if after := m.run(ssh); after != before {
			m.t.Errorf("the server was started again on %s: %s, before %s", host, after, before)
		}
		if out := m.run("berth server show " + name + " --os-cloud berth-admin"); !strings.Contains(out, " "+host+"\n") {
			m.t.Errorf("the server is not on %s:\n%s", host, out)
		}
	}
	for i, one := range []*machine{m, other} {
		out := one.run("ss -Htln 'sport = 16514'\nstat -c '%a %U %n' /etc/pki/libvirt/private/*.pem /etc/pki/qemu/*key.pem")
		if at := fmt.Sprintf("10.0.0.%d:16514", i+1); strings.Count(out, ":16514") != 1 || !strings.Contains(out, at) ||
			strings.Count(out, "600 root /etc/pki/libvirt") != 2 || strings.Count(out, "640 root /etc/pki/qemu") != 2 {
			m.t.Errorf("libvirt does not listen at %s only, or a key can be read:\n%s", at, out)
		}
	}
	// A certificate of QEMU, which QEMU's user can read, does not open libvirt.
	out, err := m.output(`mkdir -p try && cp /etc/pki/CA/cacert.pem try/ && cp /etc/pki/qemu/client-cert.pem try/clientcert.pem
cp /etc/pki/qemu/client-key.pem try/clientkey.pem
virsh -c 'qemu+tls://10.0.0.2/system?pkipath=/root/try' list`)
	if err == nil {
		m.t.Errorf("libvirt accepts a certificate of QEMU: %s", out)
	}
	m.run("rm -r try\nvirsh -c qemu+tls://10.0.0.2/system list | grep running")
}

// The blocks of the guide that are for no machine, database or hypervisor run in order on a fresh machine, on the usual
// ports. It has the packages that the guide names at its beginning, and no others. TestOperatorsGuide of cmd/berth
// checks more of what they print.
func TestGuideOnFreshMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make packages-test: needs root, systemd-nspawn and mmdebstrap")
	}
	const version = "0.0.1~1"
	system := system{name: "guide", packages: packagesOn(t, "README.md")}
	m := bootAs(t, system, "guide", packagesOf(t, "deb", version))
	m.run("cp /packages/" + version + "/*.deb .\n" + blocksOf(t, "packages.md", "machine")[0])
	sample, err := os.ReadFile("../agent/sysfs/sample.txtar")
	must(t, err)
	must(t, os.WriteFile(m.dir+"/root/machine.txtar", sample, 0o600))
	pages, err := filepath.Glob("../docs/guide/[0-9a-z]*.md")
	must(t, err)
	script := "set -x\n"
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, chapter := range strings.Split(string(text), "\n## ") {
			if strings.HasPrefix(chapter, "Backup and restore\n") || strings.HasPrefix(chapter, "Guests of libvirt\n") {
				continue // TestBackupAndRestore and TestLibvirtChapter run them
			}
			for _, found := range regexp.MustCompile("(?s)\n```sh\n(.*?)```").FindAllStringSubmatch(chapter, -1) {
				script += found[1]
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := m.command(ctx, script).CombinedOutput()
	if err != nil || strings.Count(script, "berth ") < 15 || !strings.Contains(string(out), "refused without the CA") {
		t.Fatalf("%v\n%s\n%s", err, out, m.run("cat up.log | tail -n 20"))
	}
}

// wire connects two machines, as 10.0.0.1 and 10.0.0.2.
func wire(t *testing.T, one, two *machine) {
	t.Helper()
	must(t, runs(exec.Command("ip", "link", "add", "wire", "netns", one.leader, "type", "veth", "peer", "name", "wire",
		"netns", two.leader)))
	for i, m := range []*machine{one, two} {
		m.run(fmt.Sprintf("ip address add 10.0.0.%d/24 dev wire\nip link set wire up", i+1))
	}
}

// addressOf returns the address that launch has printed.
func addressOf(t *testing.T, launched string) string {
	t.Helper()
	found := regexp.MustCompile(`ssh root@(\S+)`).FindStringSubmatch(launched)
	if found == nil || !strings.Contains(launched, "ACTIVE") {
		t.Fatalf("no server that runs, or no command for ssh:\n%s", launched)
	}
	return found[1]
}

// ssh waits until a server answers by ssh with its name. The CPU of the guest is emulated.
func (m *machine) ssh(name, address string) {
	m.t.Helper()
	const ssh = "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes " +
		"-o ConnectTimeout=3 root@"
	out := m.run("i=0; until " + ssh + address + " true 2>/dev/null; do i=$((i + 1)); test $i -lt 100 || break; sleep 1" +
		"; done\n" + ssh + address + " hostname")
	if !strings.HasSuffix(out, name+"\n") {
		m.t.Errorf("%s is %q instead of %s", address, out, name)
	}
}

// isUsed checks that the guests of this machine are those of libvirt's daemon, their network is served by dnsmasq, and
// their groups by nftables, all from a unit in its sandbox.
func (m *machine) isUsed(unit string) {
	m.t.Helper()
	out := m.run("systemctl is-active libvirtd " + unit + "\nls /run/libvirt/qemu/*.xml\nnft list tables\n" +
		"cat /proc/$(systemctl show -P MainPID " + unit + ")/status | grep -E 'NoNewPrivs|Seccomp:'\n" +
		"for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null || true; echo; done")
	for _, part := range []string{"active\nactive\n", "bridge berth_groups", "inet berth_networks", "NoNewPrivs:\t1",
		"Seccomp:\t2", "\ndnsmasq --conf-file=/run/berth-networks/", "qemu-system-x86_64 -name guest="} {
		if !strings.Contains(out, part) {
			m.t.Errorf("no %q:\n%s", part, out)
		}
	}
}

// nothingOfBerth checks that an undo has left the machine as the installation of the package made it.
func (m *machine) nothingOfBerth() {
	m.t.Helper()
	m.nothingRuns()
	out := m.run("find /var/lib/berth -mindepth 1 ! -path /var/lib/berth/instances\nnft list tables\n" +
		"ls /sys/class/net | grep -E '^(br|vxlan|tap)' || true\n" +
		"grep -l 'berth init: begin' /etc/berth/* || true\n" +
		"ls -d /root/.config/openstack /root/.ssh/id_* 2>/dev/null || true\n" +
		"ls -d /etc/pki /etc/systemd/system/libvirtd-tls.socket.d 2>/dev/null || true\n" +
		"ss -Htln 'sport = 16514'\n" +
		"ls /etc/berth\nls /run/libvirt/qemu/*.xml || true")
	want := "agent.conf\nberth.conf\nenvironment\n"
	if rest := strings.ReplaceAll(out, want, ""); strings.Contains(regexp.MustCompile(`(?m)^ls: .*\n`).
		ReplaceAllString(rest, ""), "\n") || !strings.Contains(out, want) {
		m.t.Errorf("something remains:\n%s", out)
	}
}
