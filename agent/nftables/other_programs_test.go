package nftables

import (
	"slices"
	"strings"
	"testing"
)

// TestWarnings: a chain of another program that drops forwarded packets is found, and what it drops is dropped.
func TestWarnings(t *testing.T) {
	h, a, b, s := pair(t)
	h.apply(s)
	h.run("nft", "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }"+
		"; add chain ip filter INPUT { type filter hook input priority 0; policy drop; }; add table bridge other; "+
		"add chain bridge other forward { type filter hook forward priority 0; policy drop; }")
	if got := droppers(h.run("nft", "list", "chains")); !slices.Equal(got, []string{"ip filter FORWARD"}) {
		t.Errorf("chains %v", got)
	}
	var sentences []string
	h.do(func() { sentences = Warnings(t.Context()) })
	if len(sentences) != 1 || !strings.Contains(sentences[0], "nft insert rule ip filter FORWARD iifname BRIDGE") {
		t.Errorf("sentences %q", sentences)
	}
	h.run("nft", "delete", "table", "bridge", "other")
	if a.reaches("tcp", b.four, 80, false) {
		t.Error("the other program drops nothing: the warning is wrong")
	}
	h.run("nft", "insert", "rule", "ip", "filter", "FORWARD", "iifname", "br1", "oifname", "br1", "accept")
	if !a.reaches("tcp", b.four, 80, true) {
		t.Error("the advice does not help")
	}
}

// TestFullTable warns from three quarters on, and not on a kernel that tracks nothing.
func TestFullTable(t *testing.T) {
	for _, c := range []struct {
		count, limit int
		warns        bool
	}{{0, 0, false}, {0, 262144, false}, {196607, 262144, false}, {196608, 262144, true}, {262144, 262144, true}} {
		got := fullTable(c.count, c.limit)
		if (got != "") != c.warns || c.warns && !strings.Contains(got, "nf_conntrack_max=1048576") {
			t.Errorf("%d of %d: %q", c.count, c.limit, got)
		}
	}
}

// TestKernelNumber reads the limit of a kernel that tracks connections.
func TestKernelNumber(t *testing.T) {
	h, _, _, s := pair(t)
	h.apply(s)
	limit, missing := 0, 1
	h.do(func() { limit, missing = kernelNumber("nf_conntrack_max"), kernelNumber("no_such_number") })
	if limit <= 0 || missing != 0 {
		t.Errorf("limit %d, missing %d", limit, missing)
	}
}
