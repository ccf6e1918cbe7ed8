package machines

import "testing"

// The chapter "From one machine to three", with http_basic.
func TestFromOneMachineToThreeWithHTTPBasic(t *testing.T) {
	c := newGuideCloud(t, "http_basic")
	t.Parallel()
	c.follow("")
	c.follow("Certificates")
	c.follow("Accounts")
	c.follow("The controller")
	c.follow("The accounts of people")
	c.follow("The hosts")
	c.follow("The first servers")
	t.Log(c.ok("desk", "berth --os-cloud admin host list; berth --os-cloud admin server list"))
	c.follow("A new certificate")
	c.allFollowed()
}
