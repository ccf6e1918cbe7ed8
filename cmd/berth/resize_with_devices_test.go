package main

import (
	"fmt"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// act runs an action on a server and waits until the server has this status.
func (f *fleet) act(s compute.Server, status, action string, args map[string]any) compute.Server {
	t, c := f.t, f.compute.compute()
	t.Helper()
	if err := c.Act(t.Context(), s.ID, action, args); err != nil {
		t.Fatalf("%s %s: %v", action, s.Name, err)
	}
	testenv.Until(t, s.Name+" is "+status+" after "+action, func() (bool, error) {
		now, err := c.Server(t.Context(), s.ID)
		if err != nil {
			return false, err
		}
		if now.Status == "ERROR" {
			t.Fatalf("%s: %+v", action, now.Fault)
		}
		s = now
		return now.Status == status && now.TaskState == nil, fmt.Errorf("the status is %s", now.Status)
	})
	return s
}

func (f *fleet) resize(s compute.Server, alias string) compute.Server {
	f.t.Helper()
	return f.act(s, "VERIFY_RESIZE", "resize", map[string]any{"flavorRef": f.flavor(alias)})
}

// migrationOf returns the newest migration of a server: the consumer of its allocations on the source host.
func (f *fleet) migrationOf(s compute.Server) compute.Server {
	f.t.Helper()
	list, err := f.compute.compute().Migrations(f.t.Context(), s.ID)
	if err != nil || len(list) == 0 {
		f.t.Fatalf("%v %v", list, err)
	}
	return compute.Server{ID: list[0].UUID, Name: "the migration of " + s.Name}
}

// waitForAllocation waits until a consumer has these devices in Placement; see allocation.
func (f *fleet) waitForAllocation(s compute.Server, want string) {
	f.t.Helper()
	testenv.Until(f.t, fmt.Sprintf("%s has the allocation %q", s.Name, want), func() (bool, error) {
		got := f.allocation(s)
		return got == want, fmt.Errorf("it has %q", got)
	})
}

// usagesOfVFs returns the usages of a host on which only VFs are allocated.
func usagesOfVFs(vfs string) map[string]string {
	return map[string]string{"81:00.0 1533": "0/1", "81:01.0 1533": "0/1", "81:02.0 1528": "0/1", "81:03.0 1515": vfs}
}

// waitUntilIdle waits until no device of the host is allocated, in Placement and in the agent's reports.
func (f *fleet) waitUntilIdle(host string) {
	f.t.Helper()
	f.waitForUsages(host, usagesOfVFs("0/4"))
	testenv.Until(f.t, "no device is in use on "+host, func() (bool, error) {
		list, err := f.compute.hosts().Devices(f.t.Context())
		for _, d := range list {
			if d.Host == host && d.Holder != "" {
				return false, fmt.Errorf("%s has %s", d.Holder, d.Address)
			}
		}
		return err == nil, err
	})
}

// wantResized checks that a server is in VERIFY_RESIZE on a host.
func (f *fleet) wantResized(host string, s compute.Server) compute.Server {
	f.t.Helper()
	if s.Status != "VERIFY_RESIZE" || s.Host == nil || *s.Host != host {
		f.t.Fatalf("%s is %s on %+v, want it on %s: %+v", s.Name, s.Status, s.Place, host, s.Fault)
	}
	return s
}
