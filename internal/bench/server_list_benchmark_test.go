package bench

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

const (
	listedHosts   = 1000
	largeProject  = "admin" // has nine of ten servers; the noauth2 token `admin` belongs to it
	smallProjects = 100
)

// storeServers writes servers into a new database of compute, with the code of compute's store. Every hundredth is in
// ERROR; no other is in this status.
func storeServers(b *testing.B, dir string, count int) {
	b.Helper()
	db, err := sqldb.Open(b.Context(), "sqlite:///"+filepath.Join(dir, "compute.db"))
	must(b, err)
	defer db.Close()
	s, err := store.Open(b.Context(), db)
	must(b, err)
	began := time.Now().Add(-time.Duration(count) * time.Second)
	var some []lifecycle.Server
	for n := range count {
		some = append(some, listedServer(n, began.Add(time.Duration(n)*time.Second)))
		if len(some) == 500 || n == count-1 {
			must(b, s.Create(b.Context(), some...))
			some = some[:0]
		}
	}
}

// listedServer returns a server as it is in a database: active, with the choices and the history of its creation.
func listedServer(n int, created time.Time) lifecycle.Server {
	id, host := uuid.NewString(), fmt.Sprintf("host-%04d", n%listedHosts)
	s := lifecycle.Server{ID: id, Name: fmt.Sprintf("server-%06d", n), Project: largeProject, User: "admin",
		State: lifecycle.Active, Host: host, Reported: true, Round: 1, Try: 1, Zone: "nova",
		Flavor: flavor.Flavor{ID: "plain", Name: "plain", VCPUs: 2, MemoryMB: 4096, DiskGB: 20, RXTXFactor: 1,
			Public: true, ExtraSpecs: map[string]string{"hw:cpu_policy": "shared"}},
		Metadata: map[string]string{"role": "web", "owner": "team-7"}, Tags: []string{"web"},
		Ask: resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 2, "MEMORY_MB": 4096,
			"DISK_GB": 20}}}, Limit: 16},
		LastReports: []lifecycle.LastReport{{Host: host, Instance: uuid.NewString(), Number: int64(n)}},
		Created:     created, Updated: created.Add(3 * time.Second), Launched: created.Add(3 * time.Second), Revision: 1}
	if n%10 == 9 {
		s.Project = fmt.Sprintf("project-%02d", n/10%smallProjects)
	}
	if n%100 == 50 {
		s.Fault = &lifecycle.Fault{Code: 500, Message: "the guest failed", Created: created}
	}
	for i := range 4 {
		root := provider.ID(uuid.NewString())
		s.Choices = append(s.Choices, schedule.Choice{Host: fmt.Sprintf("host-%04d", (n+i)%listedHosts), Root: root,
			Allocation: resource.Allocation{root: {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20}},
			Mappings:   map[string][]provider.ID{"": {root}}})
	}
	for i, text := range []string{"creation requested", "request to Placement prepared: one group",
		"16 candidates on 16 hosts, 4 of them chosen", "allocation claimed on " + host, "assigned to " + host,
		"guest claimed its devices: none", "guest is running"} {
		s.History = append(s.History, lifecycle.HistoryEntry{At: created.Add(time.Duration(i) * 100 * time.Millisecond),
			Text: text, Times: 1})
	}
	return s
}

// lastMarker returns the marker of the last page of a list.
func lastMarker(b *testing.B, addr string, q url.Values) string {
	b.Helper()
	c := Dial(addr)
	defer c.Close()
	q.Set("limit", "1000")
	var ids []string
	for {
		text, err := c.Want(200, "GET", "/v2.1/servers?"+q.Encode(), nil)
		must(b, err)
		var page struct{ Servers []struct{ ID string } }
		must(b, json.Unmarshal(text, &page))
		for _, one := range page.Servers {
			ids = append(ids, one.ID)
		}
		if len(page.Servers) < 1000 {
			break
		}
		q.Set("marker", ids[len(ids)-1])
	}
	q.Del("marker")
	if len(ids) <= 1000 {
		b.Fatalf("the list has only %d servers, so it has one page", len(ids))
	}
	return ids[len(ids)-1-1000]
}

// BenchmarkServerList reads pages of at most 1,000 of 100,000 servers, with one client. The first request of each kind
// is not measured apart: the maximum, which includes it, is.
func BenchmarkServerList(b *testing.B) {
	dir := place(b)
	storeServers(b, dir, *listedServers)
	placementDir := place(b)
	placement := serve(b, placementDir, SQLite(placementDir))
	compute := serveComputeIn(b, dir, placement.Addr, computeOptions)
	for _, filter := range []struct{ name, query string }{
		{"project", ""},
		{"all_tenants", "all_tenants=1"},
		{"all_tenants,status", "all_tenants=1&status=ERROR"},
		{"status", "status=ACTIVE"},
		{"all_tenants,project", "all_tenants=1&project_id=project-07"},
		{"all_tenants,host", "all_tenants=1&host=host-0007"},
		{"all_tenants,name,many", "all_tenants=1&name=server-0"},
		{"all_tenants,name,one", "all_tenants=1&name=%5Eserver-000007%24"},
		{"all_tenants,name,none", "all_tenants=1&name=nothing"},
	} {
		q, err := url.ParseQuery(filter.query)
		must(b, err)
		q.Set("limit", "1000")
		pages := map[string]string{"first": ""}
		switch filter.name {
		case "project", "all_tenants", "status", "all_tenants,name,many":
			pages["last"] = lastMarker(b, compute.Addr, q)
		}
		for _, path := range []string{"/v2.1/servers", "/v2.1/servers/detail"} {
			for _, page := range []string{"first", "last"} {
				marker, has := pages[page]
				if !has {
					continue
				}
				q.Del("marker")
				if marker != "" {
					q.Set("marker", marker)
				}
				target := path + "?" + q.Encode()
				b.Run(fmt.Sprintf("path=%s/filter=%s/page=%s", path[len("/v2.1/"):], filter.name, page),
					func(b *testing.B) { ask(b, compute, 1, func(int) string { return target }) })
			}
		}
	}
	for _, path := range []string{"/v2.1/limits", "/v2.1/os-quota-sets/admin/detail",
		"/v2.1/os-simple-tenant-usage?start=2020-01-01T00:00:00", "/v2.1/os-hypervisors/statistics"} {
		b.Run("path="+path[len("/v2.1/"):], func(b *testing.B) {
			ask(b, compute, 1, func(int) string { return path })
		})
	}
	memory(b, compute)
}
