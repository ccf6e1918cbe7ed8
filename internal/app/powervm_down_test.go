package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/novalink"
	"github.com/openberth/berth/internal/testenv"
)

// The NovaLink of a host hangs while servers are built there: they run on another host, and no further one is placed on
// the first. Servers that run there stay ACTIVE. When it answers again, nothing of the servers that left is there, and
// it gets servers again.
func TestServersLeaveHostWhoseNovaLinkHangs(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	one := newPowerVM(t)
	one.up(one.conf)
	defer one.down()
	two := one.secondHost()
	onTwo := gpuSpecs(1)
	onTwo["trait1:CUSTOM_POWERVM_IOSLOT_DRC_NAME_U2_P1_C1"] = "required"
	stays := one.boot("stays", "ACTIVE", onTwo)
	two.novalink.Inject(novalink.Fault{Hang: true, Times: 100_000})
	var servers []string
	began := time.Now()
	for i := range 2 {
		servers = append(servers, one.boot(fmt.Sprintf("s%d", i), "ACTIVE", gpuSpecs(1)).ID)
	}
	t.Logf("the servers ran after %s", time.Since(began))
	for _, id := range servers {
		if host, _ := one.serverOn(id); host != "cmp1" {
			t.Errorf("%s is on %s", id, host)
		}
	}
	down := func() bool { return strings.Contains(one.conditions(), "hypervisor can build no guests") }
	one.until("the host is down", down)
	if host, status := one.serverOn(stays.ID); host != "cmp2" || status != "ACTIVE" {
		t.Errorf("the server that runs there is %s on %s", status, host)
	}
	one.boot("none", "ERROR", gpuSpecs(1)) // both GPUs of cmp1 are taken
	two.novalink.EndFaults()
	one.until("the host is up", func() bool { return !down() })
	one.until("nothing is left there", func() bool { return len(two.owners()) == 1 })
	last := one.boot("last", "ACTIVE", gpuSpecs(1))
	if host, _ := one.serverOn(last.ID); host != "cmp2" {
		t.Errorf("the last server is on %s", host)
	}
}
