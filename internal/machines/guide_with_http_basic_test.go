package machines

import "testing"

// The chapter "From one machine to three", with http_basic.
func TestFromOneMachineToThreeWithHTTPBasic(t *testing.T) {
	c := newGuideCloud(t, "http_basic")
	c.follow("")
	c.follow("Certificates")
	c.build()
	deleted, guests := c.startCut()
	c.failingCommands()
	c.failingServices()
	c.failingAgents()
	c.endCut(deleted, guests)
	c.renewCertificate()
	c.slowLink()
	c.stop()
}
