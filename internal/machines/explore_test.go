package machines

import (
	"os"
	"testing"
	"time"
)

func TestExplore(t *testing.T) {
	c := newGuideCloud(t, "http_basic")
	c.follow("")
	c.follow("Certificates")
	c.follow("Accounts")
	c.follow("The controller")
	c.follow("The accounts of people")
	c.follow("The hosts")
	c.follow("The first servers")
	text := ""
	for n, m := range c.machines {
		text += n + " " + m.pid + "\n"
	}
	os.WriteFile("/tmp/explore.pids", []byte(text), 0o644)
	for {
		if _, err := os.Stat("/tmp/explore.stop"); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
}
