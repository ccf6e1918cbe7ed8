package machines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/openstackclient"
	"github.com/openberth/berth/internal/testenv"
)

// TestMain runs the tests, or one relay.
func TestMain(m *testing.M) {
	if conf := os.Getenv(RelayVariable); conf != "" {
		if err := RunRelay(conf); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// guideCloud is the cloud of the chapter "From one machine to three" of the operator's guide.
type guideCloud struct {
	t        *testing.T
	strategy string // http_basic or keystone
	chapter  string
	sections map[string][]block // by heading; "" is the text before the first heading
	machines map[string]*Machine
	network  *Network
	seen     []string        // words of messages that the test has produced
	steps    strings.Builder // what the steps took and printed
}

// block is an sh block of the chapter.
type block struct {
	machines []string
	text     string
	followed bool
}

// The programs that the chapter uses and that work only on real machines.
var programs = map[string]string{
	// systemctl runs the ExecStart of units without systemd, with their environment and their state directory. A process
	// that has ended may still be a zombie.
	"systemctl": `#!/bin/sh
set -eu
verb=$1
shift
[ "${1-}" != --now ] || shift
for unit; do
	file=/etc/systemd/system/$unit.service
	get() { sed -n "s/^$1=//p" "$file"; }
	alive() { [ -e "/proc/$pid/status" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; }
	pid=$(cat "/run/$unit.pid" 2>/dev/null || echo none)
	case $verb in
	enable | start)
		user=$(get User)
		user=${user:-root}
		install -d -o "$user" -g "$user" -m 700 "/var/lib/$(get StateDirectory)"
		set -a
		. /etc/berth/environment
		# shellcheck disable=SC2046 # a list of words
		setsid setpriv --reuid "$user" --regid "$user" --init-groups $(get ExecStart | sed 's:^/usr/bin/::') \
			>>"/run/$unit.out" 2>>"/var/log/$unit.log" </dev/null &
		echo $! >"/run/$unit.pid"
		;;
	stop)
		kill "$pid"
		while alive; do sleep 0.05; done
		;;
	restart) systemctl stop "$unit" && systemctl start "$unit" ;;
	reload) kill -HUP "$pid" ;;
	is-active) alive ;;
	*) exit 2 ;;
	esac
done
`,
	"journalctl": "#!/bin/sh\n[ \"$1\" = -u ] && cat \"/var/log/$2.log\"\n",
	// scp copies to the directory of the other machine.
	"scp": `#!/bin/sh
set -eu
for to; do :; done
while [ $# -gt 1 ]; do
	cp "$1" "$MACHINES/${to%%:*}${to#*:}"
	shift
done
`,
}

// newGuideCloud starts the machines of the chapter, without Berth.
func newGuideCloud(t *testing.T, strategy string) *guideCloud {
	t.Helper()
	c := &guideCloud{t: t, strategy: strategy, network: Start(t), machines: map[string]*Machine{}}
	program, err := bench.Build(t.TempDir())
	must(t, err)
	for name, address := range map[string]string{"controller": "10.20.0.10", "host1": "10.20.0.11",
		"host2": "10.20.0.12", "desk": "10.20.0.20", "slow": "10.20.0.30"} {
		m := c.network.Machine(name, address, program)
		c.machines[name] = m
		for program, text := range programs {
			must(t, os.WriteFile(m.Path("usr/local/bin/"+program), []byte(text), 0o755))
		}
		installPackage(t, m)
	}
	c.startClient("controller")
	c.startClient("desk")
	c.readChapter()
	t.Cleanup(c.logs)
	return c
}

// installPackage does what the installation of the package does: the user, /etc/berth, and the units of packaging.
func installPackage(t *testing.T, m *Machine) {
	t.Helper()
	unit, err := template.New("unit.service").Funcs(template.FuncMap{"join": strings.Join}).
		ParseFiles("../../packaging/files/unit.service")
	must(t, err)
	for name, u := range map[string]map[string]any{
		"placement": {"Command": "placement run", "Config": "berth.conf", "User": "berth"},
		"compute":   {"Command": "compute", "Config": "berth.conf", "User": "berth"},
		"agent":     {"Command": "agent run", "Config": "agent.conf", "Hardware": true},
	} {
		u["Name"] = name
		var text bytes.Buffer
		must(t, unit.Execute(&text, u))
		must(t, os.WriteFile(m.Path("etc/systemd/system/berth-"+name+".service"), text.Bytes(), 0o644))
	}
	run(t, m.Command(`set -eu
useradd --system --user-group --no-log-init --home-dir /var/lib/berth --shell /usr/sbin/nologin berth
install -d -m 755 /var/lib/berth
install -d -g berth -m 750 /etc/berth
touch /etc/berth/environment`))
}

// startClient makes `openstack` on a machine a program whose calls are made by one process: with Keystone, the chapter
// calls it 23 times.
func (c *guideCloud) startClient(machine string) {
	c.t.Helper()
	const socket = "openstack"
	m := c.machines[machine]
	must(c.t, os.WriteFile(m.Path("usr/local/bin/openstack"), []byte(openstackclient.Program(socket)), 0o755))
	server, err := openstackclient.Start(m.Command(openstackclient.ServerScript(socket)))
	must(c.t, err)
	c.t.Cleanup(server.Stop)
}

// logs prints the steps and, after a failure, the ends of the services' logs: in one message, because the summary of
// all tests has a limited number of messages of each, and those of the failures are more important.
func (c *guideCloud) logs() {
	text := &c.steps
	defer func() { c.t.Log("the steps:\n" + text.String()) }()
	if !c.t.Failed() {
		return
	}
	for name, m := range c.machines {
		files, err := filepath.Glob(m.Path("var/log/*.log"))
		must(c.t, err)
		for _, file := range files {
			log, err := os.ReadFile(file)
			must(c.t, err)
			fmt.Fprintf(text, "%s on %s:\n%s", filepath.Base(file), name, log[max(0, len(log)-8000):])
		}
	}
}

// readChapter reads the blocks for the strategy and for both.
func (c *guideCloud) readChapter() {
	t := c.t
	guide, err := os.ReadFile("../../docs/guide/2-small-cloud.md")
	must(t, err)
	_, after, found := strings.Cut(string(guide), "\n## From one machine to three\n")
	if !found {
		t.Fatal("the operator's guide has no chapter on three machines")
	}
	c.chapter, _, _ = strings.Cut(after, "\n## ")
	c.sections = map[string][]block{}
	fence := regexp.MustCompile("(?ms)^```sh (\\w+) ?(\\w*)\n(.*?)^```$")
	for i, section := range strings.Split(c.chapter, "\n### ") {
		heading := ""
		if i > 0 {
			heading, _, _ = strings.Cut(section, "\n")
		}
		if strings.Count(section, "\n```") != 2*len(fence.FindAllString(section, -1)) {
			t.Errorf("the section %q has a block that this test does not follow", heading)
		}
		for _, m := range fence.FindAllStringSubmatch(section, -1) {
			if m[2] != "" && m[2] != c.strategy {
				continue
			}
			where := map[string][]string{"all": {"controller", "host1", "host2", "desk"}, "hosts": {"host1", "host2"}}[m[1]]
			if where == nil {
				where = []string{m[1]}
			}
			c.sections[heading] = append(c.sections[heading], block{machines: where, text: m[3]})
		}
	}
}

// follow runs the blocks of a section, and returns what they print.
func (c *guideCloud) follow(heading string) (out string) {
	c.t.Helper()
	blocks := c.sections[heading]
	if len(blocks) == 0 {
		c.t.Fatalf("the chapter has no section %q with blocks", heading)
	}
	for i, b := range blocks {
		for _, name := range b.machines {
			out += c.ok(name, b.text)
		}
		blocks[i].followed = true
	}
	return out
}

// shell runs a script on a machine, and returns what it prints.
func (c *guideCloud) shell(machine, script string) (stdout, stderr string, err error) {
	c.t.Helper()
	m := c.machines[machine]
	if m == nil {
		c.t.Fatalf("there is no machine %q", machine)
	}
	cmd := m.Command("set -eu\n"+script, "MACHINES="+c.network.dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// ok runs a script that must succeed, and returns its standard output.
func (c *guideCloud) ok(machine, script string) string {
	c.t.Helper()
	began := time.Now()
	out, errs, err := c.shell(machine, script)
	if err != nil {
		c.t.Fatalf("on %s: %v\n%s\n%s\n%s", machine, err, script, out, errs)
	}
	fmt.Fprintf(&c.steps, "on %s, %v:\n%s%s", machine, time.Since(began).Round(10*time.Millisecond), out, errs)
	return out
}

// fails runs a script that must fail, or whose log must show, with these words, which the guide contains too.
func (c *guideCloud) fails(words, machine, script string) {
	c.t.Helper()
	out, errs, err := c.shell(machine, script)
	if err == nil || !strings.Contains(out+errs, words) {
		c.t.Errorf("on %s, want %q: %v\n%s\n%s%s", machine, words, err, script, out, errs)
	}
	c.documented(words)
}

// documented checks that the chapter contains these words of a message, which the test produces.
func (c *guideCloud) documented(words string) {
	c.t.Helper()
	c.seen = append(c.seen, words)
	if !strings.Contains(c.chapter, words) {
		c.t.Errorf("the chapter does not have the message %q", words)
	}
}

// shownHost is a host of `berth host list`.
type shownHost struct {
	Host, Account string
	Conditions    []condition.Condition
	Connected     bool
}

// hosts returns the hosts by name.
func (c *guideCloud) hosts() map[string]shownHost {
	c.t.Helper()
	var list []shownHost
	c.decode("berth --os-cloud admin host list -o json", &list)
	out := map[string]shownHost{}
	for _, h := range list {
		out[h.Host] = h
	}
	return out
}

// awaitConnection waits until the agents of hosts are connected. One that has just started has yet to sign in.
func (c *guideCloud) awaitConnection(hosts ...string) {
	c.t.Helper()
	testenv.Until(c.t, fmt.Sprintf("%v are connected", hosts), func() bool {
		all := c.hosts()
		return !slices.ContainsFunc(hosts, func(host string) bool { return !all[host].Connected })
	})
}

// shownServer is a server of `berth server list`.
type shownServer struct {
	ID, Name, Status string
	Host             *string `json:"OS-EXT-SRV-ATTR:host"`
}

// serversOn returns the names of the ACTIVE servers of a host, sorted.
func (c *guideCloud) serversOn(host string) (names []string) {
	c.t.Helper()
	for _, s := range c.servers() {
		if s.Status == "ACTIVE" && s.Host != nil && *s.Host == host {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// servers returns the servers of all projects.
func (c *guideCloud) servers() (list []shownServer) {
	c.t.Helper()
	c.decode("berth --os-cloud admin server list -o json", &list)
	return list
}

// decode decodes the JSON that a command on desk prints, which only reads. It is repeated if the service has not
// answered in time, such as because Keystone has not.
func (c *guideCloud) decode(command string, into any) {
	c.t.Helper()
	var out, errs string
	var err error
	testenv.Until(c.t, "an answer to "+command, func() bool {
		out, errs, err = c.shell("desk", command)
		return !strings.Contains(errs, "try again later")
	})
	if err == nil {
		err = json.Unmarshal([]byte(out), into)
	}
	if err != nil {
		c.t.Fatalf("%s: %v\n%s%s", command, err, out, errs)
	}
}

// guests returns the names of the guests that a host has. The hypervisor keeps them as files.
func (c *guideCloud) guests(host string) (names []string) {
	c.t.Helper()
	files, err := os.ReadDir(c.machines[host].Path("var/lib/berth/agent/agent/guests"))
	must(c.t, err)
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// build follows the chapter from the accounts to the first servers. Then both hosts have servers.
func (c *guideCloud) build() {
	c.t.Helper()
	c.follow("Accounts")
	if c.strategy == "keystone" { // as the tests start it, it is slow on a busy machine
		c.ok("controller", "sed -i 's/^auth_url/http_connect_timeout = 60\\n&/' /etc/berth/berth.conf")
	}
	c.follow("The controller")
	c.follow("The accounts of people")
	c.follow("The hosts")
	out := c.follow("The first servers")
	for _, want := range []string{"| web-1 | ACTIVE |", "| host1 ", "| host2 "} {
		if !strings.Contains(out, want) {
			c.t.Errorf("no %q in\n%s", want, out)
		}
	}
	c.awaitConnection("host1", "host2")
	for host, h := range c.hosts() {
		if len(h.Conditions) > 0 {
			c.t.Errorf("%s: %+v", host, h)
		}
	}
	for _, host := range []string{"host1", "host2"} {
		c.createOn(host, "first-of-"+host, "--wait")
		c.createOn(host, "second-of-"+host, "--wait")
		if on := c.serversOn(host); len(on) < 2 || len(on) != len(c.guests(host)) {
			c.t.Errorf("%s has the servers %v and the guests %v", host, on, c.guests(host))
		}
	}
}

// checkMessages checks that the test has produced each message of the chapter's table, except the one of the other
// strategy.
func (c *guideCloud) checkMessages() {
	c.t.Helper()
	ofOther := map[string]string{"http_basic": "refuses the user",
		"keystone": "the name or the password is wrong"}
	rows := regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(
		strings.SplitN(c.chapter, "### When a step fails\n", 2)[1], -1)
	for _, row := range rows {
		produced := func(words string) bool { return strings.Contains(row[1], words) }
		if !produced(ofOther[c.strategy]) && !slices.ContainsFunc(c.seen, produced) {
			c.t.Errorf("the test does not produce the message %s", row[1])
		}
	}
	if len(rows) < 10 {
		c.t.Errorf("the table of messages has %d rows; has its form changed?", len(rows))
	}
}

// stop stops all services and checks that each ends by itself, and that the test has followed the whole chapter.
func (c *guideCloud) stop() {
	c.t.Helper()
	c.ok("host1", "systemctl stop berth-agent")
	c.ok("host2", "systemctl stop berth-agent")
	c.ok("controller", "systemctl stop berth-compute berth-placement")
	c.checkMessages()
	for heading, blocks := range c.sections {
		for _, b := range blocks {
			if !b.followed {
				c.t.Errorf("the test does not follow a block of %q:\n%s", heading, b.text)
			}
		}
	}
}
