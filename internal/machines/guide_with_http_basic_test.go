package machines

import "testing"

// TestFromOneMachineToThreeWithHTTPBasic follows the chapter with http_basic. It cuts a cable for a moment, runs into
// every failure that the chapter lists, replaces the certificate, and uses a slow link.
func TestFromOneMachineToThreeWithHTTPBasic(t *testing.T) {
	t.Parallel()
	c := newGuideCloud(t, "http_basic")
	c.follow("")
	c.follow("Certificates")
	c.build()
	guests := c.startCut()
	c.failingCommands()
	c.failingServices()
	c.failingAgents()
	c.endCut(1, guests)
	c.renewCertificate()
	c.slowLink()
	c.stop()
}
