package settings

import (
	"strings"
	"testing"
)

// An error of an alias that only shows among all aliases has file, line and text, like the others.
func TestMembersOfAliasesHavePlaces(t *testing.T) {
	for line, says := range map[string]string{
		`{"name": "s", "members": {"gpuu": 1}, "match": "pcie_root"}`: `no alias "gpuu" is configured`,
		`{"name": "s", "members": {"s": 1}, "match": "pcie_root"}`:    `alias "s" has a match of its own`,
	} {
		_, _, err := readText(t, `[api]
auth_strategy = noauth2
[filter_scheduler]
pci_in_placement = true
[pci]
alias = {"name": "gpu", "resource_class": "CUSTOM_GPU"}
alias = `+line+"\n")
		if err == nil || !strings.Contains(err.Error(), ":7: [pci] alias = "+line) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not have place and %q", err, says)
		}
	}
}
