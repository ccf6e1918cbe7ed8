package machines

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// startCut cuts the cable of host1, deletes a server of it, and creates a server for it and one for host2, which
// becomes ACTIVE. It returns the guests of host1, of which it has deleted one.
func (c *guideCloud) startCut() (guests []string) {
	c.t.Helper()
	guests = c.guests("host1")
	c.machines["host1"].Unplug()
	c.ok("desk", "berth --os-cloud red server delete first-of-host1")
	c.createOn("host1", "waits", "")
	c.createOn("host2", "elsewhere", "--wait")
	return guests
}

// waitForSilence waits until host1, whose cable is cut, is shown as silent, and deletes one more server of it. The
// server is no longer listed, but its guest remains. The server that was created for host1 during the cut is built on
// host2.
func (c *guideCloud) waitForSilence() {
	c.t.Helper()
	const state = "silent for"
	c.documented(state)
	testenv.Until(c.t, "host1 is "+state, func() bool {
		out, _, err := c.shell("desk", "berth --os-cloud admin host list")
		return err == nil && regexp.MustCompile("(?m)^host1 +"+state).MatchString(out)
	})
	c.awaitConnection("host2") // host1 may have been silent for long when the agent of host2 was started again
	guests := c.guests("host1")
	c.ok("desk", "berth --os-cloud red server delete second-of-host1")
	if out := c.ok("desk", "berth --os-cloud red server list"); strings.Contains(out, "second-of-host1") {
		c.t.Errorf("a server that was deleted on a silent host is listed:\n%s", out)
	}
	if now := c.guests("host1"); !slices.Equal(now, guests) {
		c.t.Errorf("the guests of host1 changed while it was silent: %v, before %v", now, guests)
	}
	testenv.Until(c.t, "the server that waited for host1 is on host2", func() bool {
		return slices.Contains(c.serversOn("host2"), "waits")
	})
}

// createOn creates a server for a host: the other one is disabled.
func (c *guideCloud) createOn(host, name, options string) {
	c.t.Helper()
	other := map[string]string{"host1": "host2", "host2": "host1"}[host]
	c.ok("desk", "berth --os-cloud admin host disable "+other+"\n"+
		"berth --os-cloud red server create "+name+" --flavor small "+options)
	testenv.Until(c.t, name+" is claimed on "+host, func() bool {
		return slices.ContainsFunc(c.servers(), func(s shownServer) bool {
			return s.Name == name && s.Host != nil && *s.Host == host
		})
	})
	c.ok("desk", "berth --os-cloud admin host enable "+other)
}

// endCut repairs the cable and waits until everything that was requested is done: of the guests that host1 had before,
// this number is deleted. No guest may have ended during the cut. On which host the server is that was created during
// the cut depends on how long the cut was.
func (c *guideCloud) endCut(deleted int, guests []string) {
	c.t.Helper()
	if now := c.guests("host1"); !slices.Equal(now, guests) {
		c.t.Errorf("the guests of host1 changed while its cable was cut: %v, before %v", now, guests)
	}
	c.machines["host1"].Plug()
	testenv.Until(c.t, "the host is connected, and its servers are as requested", func() bool {
		for _, s := range c.servers() {
			if s.Name == "first-of-host1" || s.Status != "ACTIVE" {
				return false
			}
		}
		return c.hosts()["host1"].Connected && len(c.guests("host1")) == len(c.serversOn("host1"))
	})
	c.awaitConnection("host2")
	kept := 0
	for _, guest := range c.guests("host1") {
		if slices.Contains(guests, guest) {
			kept++
		}
	}
	if kept != len(guests)-deleted {
		c.t.Errorf("host1 kept %d of its %d guests; %d were deleted", kept, len(guests), deleted)
	}
}

// slowLink works over a link with a delay and a low rate: from desk, and with the agent of host2.
func (c *guideCloud) slowLink() {
	c.t.Helper()
	for _, port := range []string{":8774", ":8778", ":5000"} {
		c.machines["slow"].StartRelay(Relay{Listen: "10.20.0.30" + port, Target: "10.20.0.10" + port,
			Delay: 200 * time.Millisecond, Rate: 20_000})
	}
	for _, name := range []string{"desk", "host2"} {
		c.ok(name, "sed -i 's/10.20.0.10 controller/10.20.0.30 controller/' /etc/hosts")
	}
	c.ok("host2", "systemctl restart berth-agent")
	c.awaitConnection("host2")
	c.createOn("host2", "slow", "--wait")
	c.ok("desk", "berth --os-cloud red server delete slow --wait")
	log, err := os.ReadFile(c.machines["controller"].Path("var/log/berth-compute.log"))
	must(c.t, err)
	if !strings.Contains(string(log), "from=10.20.0.30:") {
		c.t.Error("no request has used the slow link")
	}
}

// renewCertificate follows the section on a new certificate while requests on new connections are made in a row.
func (c *guideCloud) renewCertificate() {
	c.t.Helper()
	c.ok("desk", "rm -f stop; touch requests\n"+
		"(until [ -e stop ]; do\n"+
		"curl -fsS --cacert /etc/berth/ca.pem https://controller:8774/healthz https://controller:8778/healthz \\\n"+
		"  -o /dev/null -o /dev/null && echo done || echo lost\ndone) >requests 2>&1 &")
	requests := func() string {
		text, err := os.ReadFile(c.machines["desk"].Path("root/requests"))
		must(c.t, err)
		return string(text)
	}
	more := func() {
		c.t.Helper()
		count := len(requests())
		testenv.Until(c.t, "further requests", func() bool { return len(requests()) > count+len("done\n")*5 })
	}
	more()
	before := c.ok("controller", "openssl x509 -in /etc/berth/cert.pem -noout -serial")
	c.follow("A new certificate")
	after := c.ok("controller", "openssl x509 -in /etc/berth/cert.pem -noout -serial")
	for _, port := range []string{"8774", "8778"} {
		testenv.Until(c.t, "the new certificate is in use", func() bool {
			return after == c.ok("controller", "openssl s_client -connect controller:"+port+" </dev/null 2>/dev/null | "+
				"openssl x509 -noout -serial")
		})
	}
	more()
	c.ok("desk", "touch stop")
	if text := requests(); before == after || strings.Trim(text, "done\n") != "" {
		c.t.Errorf("serial numbers %s and %s; requests during the change:\n%s", before, after, text)
	}
	if hosts := c.hosts(); !hosts["host1"].Connected || !hosts["host2"].Connected {
		c.t.Errorf("a host lost its connection: %+v", hosts)
	}
}
