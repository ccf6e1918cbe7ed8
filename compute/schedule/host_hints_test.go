package schedule

import "testing"

// TestHostHints tests which hosts the hints same_host and different_host permit.
func TestHostHints(t *testing.T) {
	hosts := map[string][]string{"one": {"a"}, "two": {"b"}, "moving": {"b", "c"}}
	for name, c := range map[string]struct {
		hints           *HostHints
		permitted, only string // of the hosts a, b and c
	}{
		"no hint":                              {nil, "abc", ""},
		"none of them":                         {&HostHints{Hosts: hosts}, "abc", ""},
		"same":                                 {&HostHints{Same: []string{"one"}, Hosts: hosts}, "a", "a"},
		"same as one of several":               {&HostHints{Same: []string{"one", "moving"}, Hosts: hosts}, "abc", ""},
		"same as no server":                    {&HostHints{Same: []string{"gone"}, Hosts: hosts}, "", ""},
		"same as one that is gone and another": {&HostHints{Same: []string{"gone", "two"}, Hosts: hosts}, "b", "b"},
		"different":                            {&HostHints{Different: []string{"moving", "gone"}, Hosts: hosts}, "a", ""},
		"both": {&HostHints{Same: []string{"moving"}, Different: []string{"two"},
			Hosts: hosts}, "c", ""},
	} {
		got := ""
		for _, host := range []string{"a", "b", "c"} {
			filter, why := c.hints.Refuse(host)
			if (filter == "") != (why == "") {
				t.Errorf("%s: %q %q", name, filter, why)
			}
			if why == "" {
				got += host
			}
		}
		if got != c.permitted || c.hints.OnlyHost() != c.only {
			t.Errorf("%s: permitted %q, only %q; want %q, %q", name, got, c.hints.OnlyHost(), c.permitted, c.only)
		}
	}
}
