package machines

import (
	"os"
	"slices"
	"strings"
	"time"
)

// startCut cuts the cable of host1. It deletes a server of it, and creates servers, of which some may be meant for
// host1. It returns the name of the deleted server, and the guests of host1.
func (c *guideCloud) startCut() (deleted string, guests []string) {
	c.t.Helper()
	deleted, guests = c.serversOn("host1")[0], c.guests("host1")
	c.machines["host1"].Unplug()
	c.ok("desk", "berth --os-cloud red server delete "+deleted)
	c.ok("desk", "berth --os-cloud red server create during --count 4 --flavor small")
	eventually(c.t, "host2 continues to get servers", func() bool {
		return slices.ContainsFunc(c.serversOn("host2"), func(name string) bool {
			return strings.HasPrefix(name, "during")
		})
	})
	return deleted, guests
}

// endCut repairs the cable and waits until everything that was requested is done. No guest may have ended during the
// cut.
func (c *guideCloud) endCut(deleted string, guests []string) {
	c.t.Helper()
	if now := c.guests("host1"); !slices.Equal(now, guests) {
		c.t.Errorf("the guests of host1 changed while its cable was cut: %v, before %v", now, guests)
	}
	c.machines["host1"].Plug()
	eventually(c.t, "the host is connected, and its servers are as requested", func() bool {
		for _, s := range c.servers() {
			if s.Name == deleted || s.Status != "ACTIVE" {
				return false
			}
		}
		return c.hosts()["host1"].Connected && len(c.guests("host1")) == len(c.serversOn("host1"))
	})
	kept := 0
	for _, guest := range c.guests("host1") {
		if slices.Contains(guests, guest) {
			kept++
		}
	}
	if kept != len(guests)-1 {
		c.t.Errorf("host1 kept %d of its %d guests, one of which was deleted", kept, len(guests))
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
	eventually(c.t, "host2 is connected", func() bool { return c.hosts()["host2"].Connected })
	c.ok("desk", "berth --os-cloud admin host disable host1\n"+
		"berth --os-cloud red server create slow --count 2 --flavor small --wait\n"+
		"berth --os-cloud admin host enable host1")
	if on := c.serversOn("host2"); !slices.Contains(on, "slow-1") || !slices.Contains(on, "slow-2") {
		c.t.Errorf("host2 has the servers %v", on)
	}
	c.ok("desk", "berth --os-cloud red server delete slow-1 slow-2 --wait")
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
		"curl -fsS --cacert /etc/berth/ca.pem https://controller:8774/healthz https://controller:8778/healthz -o /dev/null \\\n"+
		"  -o /dev/null && echo done || echo lost\ndone) >requests 2>&1 &")
	requests := func() string {
		text, err := os.ReadFile(c.machines["desk"].Path("root/requests"))
		must(c.t, err)
		return string(text)
	}
	more := func() {
		c.t.Helper()
		count := len(requests())
		eventually(c.t, "further requests", func() bool { return len(requests()) > count+len("done\n")*5 })
	}
	more()
	before := c.ok("controller", "openssl x509 -in /etc/berth/cert.pem -noout -serial")
	c.follow("A new certificate")
	after := c.ok("controller", "openssl x509 -in /etc/berth/cert.pem -noout -serial")
	for _, port := range []string{"8774", "8778"} {
		eventually(c.t, "the new certificate is in use", func() bool {
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
