package quota_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/fault"
)

func TestCheck(t *testing.T) {
	limits := quota.Amounts{quota.Instances: 10, quota.Cores: 20, quota.RAM: quota.Unlimited, "class:VGPU": 0}
	used := quota.Amounts{quota.Instances: 10, quota.Cores: 18, quota.RAM: 1 << 40}
	for _, c := range []struct {
		requested quota.Amounts
		refusal   string
	}{
		{quota.Amounts{quota.Cores: 2, quota.RAM: 1, "class:VCPU": 100}, ""},
		{quota.Amounts{quota.Cores: 4},
			"Quota exceeded for cores: Requested 4, but already used 18 of 20 cores"},
		{quota.Amounts{quota.Instances: 1, quota.Cores: 3}, "Quota exceeded for cores, instances: Requested 3, 1, but " +
			"already used 18, 10 of 20, 10 cores, instances"},
		{quota.Amounts{"class:VGPU": 1},
			"Quota exceeded for class:VGPU: Requested 1, but already used 0 of 0 class:VGPU"},
		{quota.Amounts{quota.Instances: 0, "class:VGPU": -1}, ""},
	} {
		err := quota.Check(limits, used, c.requested)
		if c.refusal == "" && err != nil || c.refusal != "" && (!fault.Is(err, fault.Forbidden) || err.Error() != c.refusal) {
			t.Errorf("%v: got %v, want %q", c.requested, err, c.refusal)
		}
	}
}

func TestFit(t *testing.T) {
	limits := quota.Amounts{quota.Instances: 10, quota.Cores: 20}
	for _, c := range []struct{ instances, cores, count, each, fit int }{
		{0, 0, 100, 1, 10}, {0, 0, 100, 4, 5}, {9, 19, 3, 1, 1}, {12, 0, 3, 1, 0},
	} {
		used := quota.Amounts{quota.Instances: c.instances, quota.Cores: c.cores}
		err := quota.Check(limits, used, quota.Amounts{quota.Instances: c.count, quota.Cores: c.count * c.each})
		exceeded, ok := errors.AsType[*quota.Exceeded](err)
		if !ok || exceeded.Fit(c.count) != c.fit {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestGrowthAndAdd(t *testing.T) {
	before, after := quota.Amounts{"a": 1, "b": 2}, quota.Amounts{"a": 3, "b": 2, "c": 1}
	more := quota.Growth(before, after)
	if !maps.Equal(more, quota.Amounts{"a": 2, "c": 1}) || len(quota.Growth(after, before)) != 0 {
		t.Errorf("got %v", more)
	}
	before.Add(more, 1)
	if !maps.Equal(before, after) {
		t.Errorf("got %v, want %v", before, after)
	}
	if !quota.Defaults().Restrict(quota.Amounts{quota.KeyPairs: 1}) || quota.Defaults().Restrict(after) {
		t.Error("the defaults restrict key pairs, and no unknown resource")
	}
}

func TestUnified(t *testing.T) {
	got := quota.FromUnified(map[string]int{"class:VCPU": 4, "server_key_pairs": 3, "server_groups": 2,
		"server_metadata_items": 1, "class:VGPU": -1}, []string{"servers", "class:VCPU"})
	want := quota.Amounts{"instances": 0, "class:VCPU": 4, "key_pairs": 3, "server_groups": 2, "metadata_items": 1,
		"class:VGPU": -1}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want = quota.Amounts{"cores": 4, "instances": 1}
	got = quota.Amounts{"class:VCPU": 4, "cores": 9, "instances": 1, "ram": 7}
	if got = got.ShownUnified(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
