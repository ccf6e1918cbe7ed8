package machines

import (
	"os"
	"strings"

	"github.com/openberth/berth/internal/testenv"
)

// failingCommands runs commands that fail on desk, with the messages of the chapter.
func (c *guideCloud) failingCommands() {
	c.t.Helper()
	const account = "export OS_AUTH_TYPE=http_basic OS_USERNAME=root OS_PASSWORD=wrong\n"
	c.ok("desk", "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=other -keyout other.key -out other.pem")
	for _, f := range []struct{ words, command string }{
		{"signed by unknown authority; name the file with the certificate of its CA in --ca-file",
			"berth --compute-url https://controller:8774 host list"},
		{"signed by unknown authority; name the file with the certificate of its CA in --ca-file",
			"berth --ca-file other.pem --compute-url https://controller:8774 host list"},
		{"Client sent an HTTP request to an HTTPS server", "berth --compute-url http://controller:8774 host list"},
		{"Client sent an HTTP request to an HTTPS server", "berth --placement-url http://controller:8778 provider list"},
		{"certificate is valid for controller, not ctl",
			"echo 10.20.0.10 ctl >>/etc/hosts\nberth --ca-file /etc/berth/ca.pem --compute-url https://ctl:8774 host list"},
		{"connect: connection refused", "berth --compute-url https://controller:8775 host list"},
		{"connect: no route to host", "berth --compute-url https://10.20.0.99:8774 host list"},
		{"by default it needs the role service or admin, which ann does not have", "berth --os-cloud red host list"},
	} {
		if strings.Contains(f.command, "--os-cloud") && c.strategy == "keystone" {
			f.words = "by default it needs the role service or admin, which"
		}
		c.fails(f.words, "desk", account+f.command)
	}
	if c.strategy == "http_basic" {
		c.fails("the name or the password is wrong", "desk", account+
			"berth --ca-file /etc/berth/ca.pem --compute-url https://controller:8774 host list")
		return
	}
	c.fails("refuses the user", "desk", "cd .config/openstack\n"+
		"sed 's/password: .*/password: wrong/' clouds.yaml >wrong.yaml\n"+
		"OS_CLIENT_CONFIG_FILE=wrong.yaml berth --os-cloud admin host list")
}

// failingServices starts services on the controller that must not start, and one that must not be reached without TLS.
func (c *guideCloud) failingServices() {
	c.t.Helper()
	for _, service := range []string{"placement", "compute"} {
		c.fails("is not a loopback address, and with auth_strategy = noauth2 every client that reaches it is admin",
			"controller", "printf '[api]\\nauth_strategy = noauth2\\n' >noauth2.conf\n"+
				"berth "+service+" --config-file noauth2.conf --data-dir noauth2 --listen 0.0.0.0:8779")
	}
	c.fails("[ssl] key_file = /etc/berth/key.pem: cannot be read: permission denied", "controller",
		"cd /\nchown root: /etc/berth/key.pem\n"+
			"trap 'chown berth: /etc/berth/key.pem' EXIT\n"+
			"setpriv --reuid berth --regid berth --init-groups berth placement --config-file /etc/berth/berth.conf "+
			"--data-dir /var/lib/berth/placement --listen 0.0.0.0:8779")
	c.ok("controller", "sed '/^\\[ssl\\]/,$d' /etc/berth/berth.conf >plain.conf\n"+
		"berth placement --config-file plain.conf --data-dir plain --listen 0.0.0.0:8779 >plain.out 2>plain.log &\n"+
		"echo $! >plain.pid")
	testenv.Until(c.t, "placement without TLS runs", func() bool {
		out, err := os.ReadFile(c.machines["controller"].Path("root/plain.out"))
		return err == nil && strings.Contains(string(out), "placement: http:")
	})
	c.fails("does not use TLS: http: server gave HTTP response to HTTPS client", "desk",
		"berth --os-cloud admin --placement-url https://controller:8779 provider list")
	c.ok("controller", "kill $(cat plain.pid)")
	const warning = "other machines can reach this address, and their tokens and data are not encrypted"
	c.documented(warning)
	log, err := os.ReadFile(c.machines["controller"].Path("root/plain.log"))
	must(c.t, err)
	if !strings.Contains(string(log), warning) {
		c.t.Errorf("no warning about a service without TLS:\n%s", log)
	}
}

// failingAgents runs the agent of host2 with wrong configurations, beside its stopped service: with the account of
// host1, with an account without the role service, without the CA, and with an address without TLS.
func (c *guideCloud) failingAgents() {
	c.t.Helper()
	c.ok("host2", "systemctl stop berth-agent")
	account := func(name string) string {
		password, err := os.ReadFile(c.machines["controller"].Path("etc/berth/" + name + ".password"))
		must(c.t, err)
		return "s/^username = .*/username = " + name + "/;s/^password = .*/password = " +
			strings.TrimSpace(string(password)) + "/"
	}
	for _, f := range []struct{ words, change string }{
		{"may not speak for host host2: the host is bound to another account", account("host1")},
		{"correct the account of [placement], which needs the role service", account("ann")},
		{"signed by unknown authority; name the file with the certificate of its CA in [placement] cafile",
			"/^cafile/d"},
		{"Client sent an HTTP request to an HTTPS server", "s/^endpoint_override = https/endpoint_override = http/"},
	} {
		if c.strategy == "keystone" {
			switch {
			case strings.HasPrefix(f.change, "s/^endpoint"):
				continue // the addresses are in the catalog
			case f.change == "/^cafile/d":
				f.words = "signed by unknown authority"
			case strings.HasPrefix(f.change, "s/^username = .*/username = ann/"):
				f.change += ";s/^project_name = .*/project_name = red/"
			}
		}
		c.documented(f.words)
		c.ok("host2", "sed '"+f.change+"' /etc/berth/agent.conf >wrong.conf\n"+
			"berth agent --config-file wrong.conf --data-dir wrong >agent.log 2>&1 &\necho $! >agent.pid")
		testenv.Until(c.t, "the agent logs "+f.words, func() bool {
			log, err := os.ReadFile(c.machines["host2"].Path("root/agent.log"))
			must(c.t, err)
			return strings.Contains(string(log), f.words)
		})
		c.ok("host2", "kill -9 $(cat agent.pid) || true; rm -r wrong")
	}
	c.ok("host2", "systemctl start berth-agent")
}
