package settings

import (
	"strings"
	"testing"
)

// An error of an alias that only shows among all aliases has file, line and text, like the others.
func TestMembersOfAliasesHavePlaces(t *testing.T) {
	_, _, err := readText(t, `[api]
auth_strategy = noauth2
[pci]
alias = {"name": "s", "members": {"gpuu": 1}, "match": "pcie_root"}
alias = {"name": "gpu", "resource_class": "CUSTOM_GPU"}
alias = {"name": "twice", "members": {"s": 1}, "match": "pcie_root"}
`)
	for _, part := range []string{`:4: [pci] alias = {"name": "s"`, `no alias "gpuu" is configured`,
		`:6: [pci] alias = {"name": "twice"`, `alias "s" has a match of its own`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not have %q", err, part)
		}
	}
}
