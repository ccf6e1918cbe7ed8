package hosts

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/resource"
)

// The answer has the sum of all hosts, and first the class that most hosts lack.
func TestHeadroomDocument(t *testing.T) {
	got := writeHeadroom([]scheduler.HostHeadroom{
		{Name: "a", Fits: 3, Exact: true, Lacks: []resource.Class{"VCPU"}},
		{Name: "b", Fits: 2, Exact: true, Lacks: []resource.Class{"SRIOV_NET_VF", "VCPU"}},
		{Name: "c", Exact: true, Excluded: "silent"},
	}, "")
	want := host.Headroom{Fits: 5, Exact: true,
		RunsOut: []host.RunsOut{{Class: "VCPU", Hosts: 2}, {Class: "SRIOV_NET_VF", Hosts: 1}},
		ByHost: []host.HostHeadroom{{Host: "a", Fits: 3, Exact: true, Lacks: []string{"VCPU"}},
			{Host: "b", Fits: 2, Exact: true, Lacks: []string{"SRIOV_NET_VF", "VCPU"}},
			{Host: "c", Exact: true, Lacks: []string{}, Excluded: "silent"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	bound := writeHeadroom([]scheduler.HostHeadroom{{Root: "r", Fits: 1}}, "why")
	if bound.Exact || bound.Reason != "why" || bound.ByHost[0].Exact || bound.ByHost[0].Host != "r" {
		t.Errorf("%+v", bound)
	}
}
