package resource

import "testing"

func TestAllocationEqual(t *testing.T) {
	a := Allocation{"p": {"VCPU": 1}, "q": {}}
	if !a.Equal(Allocation{"p": {"VCPU": 1}}) {
		t.Error("an empty share counts as absent")
	}
	for _, b := range []Allocation{nil, {"p": {"VCPU": 2}}, {"p": {"VCPU": 1}, "r": {"VCPU": 1}},
		{"p": {"VCPU": 1, "X": 1}}} {
		if a.Equal(b) || b.Equal(a) {
			t.Errorf("%v equals %v", a, b)
		}
	}
}
