package schedule

import "testing"

// TestAffinityOfMoves tests which hosts the policy affinity permits to a server with others on several hosts.
func TestAffinityOfMoves(t *testing.T) {
	of := func(dead []string, hosts ...string) *ServerGroup {
		g := &ServerGroup{ID: "g", Policy: Affinity, Others: map[string]int{}, Dead: dead}
		for _, host := range hosts {
			g.Others[host]++
		}
		return g
	}
	for _, c := range []struct {
		name      string
		group     *ServerGroup
		permitted string // of the hosts a, b and c
		only      string
	}{
		{"created beside members on two hosts", of(nil, "a", "b"), "", ""},
		{"moved while members are on two hosts", of(nil, "a", "b").Moving(), "ab", ""},
		{"moved away from the others", of(nil, "a", "a").Moving(), "a", "a"},
		{"first that is evacuated", of(nil, "a", "a").Evacuating("a"), "abc", ""},
		{"second that is evacuated", of(nil, "a", "a", "b").Evacuating("a"), "b", "b"},
		{"evacuated while others are on another dead host", of([]string{"c"}, "a", "c").Evacuating("a"), "abc", ""},
		{"evacuated from a host that is only silent", of([]string{"c"}, "a", "b", "c").Evacuating("a"), "b", "b"},
		{"no group", (*ServerGroup)(nil).Evacuating("a"), "abc", ""},
	} {
		got := ""
		for _, host := range []string{"a", "b", "c"} {
			if _, why := c.group.Refuse(host); why == "" {
				got += host
			}
		}
		if got != c.permitted || c.group.OnlyHost() != c.only {
			t.Errorf("%s: permitted %q, only %q; want %q, %q", c.name, got, c.group.OnlyHost(), c.permitted, c.only)
		}
	}
	before := of(nil, "a")
	if before.Evacuating("a"); before.Others["a"] != 1 {
		t.Error("the group of the record has changed")
	}
}
