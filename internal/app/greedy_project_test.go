package app

import (
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
)

// Two projects have requested 2,048 servers each. The servers of a third project are built while most of those wait.
func TestHugeRequestsDoNotDelayOthers(t *testing.T) {
	const huge = 2048
	l := newLab(t)
	l.up("[berth]\nfake_vcpus = 1000000\nfake_memory_mb = 100000000\nfake_disk_gb = 1000000\n")
	defer l.down()
	flavor, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 1, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	create := func(project string, count int) (as *compute.Client, id string) {
		t.Helper()
		as = compute.NewClient("http://compute", rest.InMemory(l.cloud.Compute.Handler), "someone:"+project)
		made, err := as.CreateServer(t.Context(), compute.CreateServer{Name: project, Flavor: flavor.ID, MaxCount: count,
			MinCount: 1})
		if err != nil {
			t.Fatal(err)
		}
		return as, made.ID
	}
	create("p1", huge)
	create("p2", huge)
	for range 5 {
		as, id := create("p3", 1)
		l.until("the server is ACTIVE", func() bool {
			s, err := as.Server(t.Context(), id)
			return err == nil && s.Status == "ACTIVE"
		})
	}
	hosts, err := l.cloud.HostClient().Hosts(t.Context())
	if err != nil || len(hosts) != 1 {
		t.Fatalf("%d hosts, %v", len(hosts), err)
	}
	if n := len(hosts[0].Guests); n > huge {
		t.Errorf("%d guests were built before the five of the third project", n)
	}
}
