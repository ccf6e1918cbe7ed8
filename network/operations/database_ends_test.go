package operations

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// portStep is an operation on a bound port of the server that has a guarantee of 1000 kbit/s.
type portStep struct {
	name string
	run  func(ctx context.Context, c *cloud, p store.Port, to string) error
}

func portSteps() []portStep {
	return []portStep{
		{"create", func(ctx context.Context, c *cloud, _ store.Port, to string) error {
			_, err := c.CreatePort(ctx, store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID, Policy: to}, nil)
			return err
		}},
		{"bind again", func(ctx context.Context, c *cloud, p store.Port, _ string) error {
			_, err := c.UpdatePort(ctx, p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
				p.Binding.Profile["key"] = "new"
				return nil, false, nil
			})
			return err
		}},
		{"policy", func(ctx context.Context, c *cloud, p store.Port, to string) error {
			_, err := c.setPolicy(ctx, p.ID, to)
			return err
		}},
		{"delete", func(ctx context.Context, c *cloud, p store.Port, _ string) error {
			return c.DeletePort(ctx, p.ID, NoRevision)
		}},
	}
}

// TestDatabaseEndsAtEachStep ends the database at each packet of each operation on a port: every second packet is
// lost, and of the others only the answer. When the database is back, the port and the allocation of its server agree,
// and each address is given once.
func TestDatabaseEndsAtEachStep(t *testing.T) {
	db := databases.SharedPostgreSQL(t)
	url, proxy := db.Database(t), databases.NewProxy(t, db.Addr)
	c := newCloudOn(t, proxy.URL(url))
	_, err := c.CreateSubnet(t.Context(), store.Subnet{Base: store.Base{Project: "demo"}, Network: c.network.ID,
		IPVersion: 4, CIDR: "10.0.0.0/16"}, false)
	must(t, err)
	change := [2]string{c.policy(t, bwRule("egress", 1000)),
		c.policy(t, bwRule("egress", 3000), ppsRule("egress", 7))}
	for _, step := range portSteps() {
		for _, late := range []bool{false, true} {
			packets := 0
			if late { // every second packet before its effect, the others after it
				packets = 1
			}
			for c.databaseEnds(t, proxy, step, change, databases.Cut{Skip: packets, LoseResponse: late}) {
				packets += 2 * testenv.Stride(3)
			}
			if packets < 4 {
				t.Errorf("%s: only %d packets: the test checks nothing", step.name, packets)
			}
		}
	}
	checkPorts(t, c.Service)
}

// databaseEnds lets the database end at a packet of an operation, repairs it, and checks the cloud. It reports whether
// the operation sent that packet.
func (c *cloud) databaseEnds(t *testing.T, proxy *databases.Proxy, step portStep, change [2]string,
	cut databases.Cut) bool {
	t.Helper()
	ctx := t.Context()
	from, to := change[0], change[1]
	c.reportAgents(t) // the whole test may take longer than AgentDownTime
	p := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	server, before := proxy.Target(), proxy.Broken()
	patient, giveUp := context.WithCancel(ctx)
	cut.Do = func() {
		proxy.Turn("127.0.0.1:1") // nothing listens there
		proxy.Drop()
		time.AfterFunc(50*time.Millisecond, giveUp) // the client does not wait for the repair
	}
	proxy.Break(cut)
	err := step.run(patient, c, p, to)
	giveUp()
	broken := proxy.Broken() > before
	proxy.Repair()
	proxy.Turn(server)
	must(t, c.Resume(ctx, 0))
	name := fmt.Sprintf("%s, packet %d, late %v (%v)", step.name, cut.Skip+1, cut.LoseResponse, err)
	if err != nil && !fault.Is(err, fault.Unavailable) || err != nil && !broken {
		t.Errorf("%s: want success or an unavailable service", name)
	}
	now, missing := Get[store.Port](ctx, c.Service, p.ID)
	want := resource.Allocation{bridge: {egr: 1000}}
	switch {
	case fault.Is(missing, fault.NotFound):
		want = resource.Allocation{}
	case missing != nil:
		t.Fatal(missing)
	case now.Policy == to:
		want = resource.Allocation{bridge: {egr: 3000}, ovs: {ppsEgr: 7}}
	}
	if missing == nil {
		c.checkProfile(t, now)
	}
	if got := c.shares(); !reflect.DeepEqual(got, want) {
		t.Errorf("%s: allocation %v, want %v", name, got, want)
	}
	if left, err := List[store.Change](ctx, c.Service, store.Filter{}); err != nil || len(left) > 0 {
		t.Errorf("%s: unfinished changes %v %v", name, left, err)
	}
	if missing == nil {
		must(t, c.DeletePort(ctx, p.ID, NoRevision))
	}
	return broken
}
