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
	if a.reaches("tcp", b.four, 80) {
		t.Error("the other program drops nothing: the warning is wrong")
	}
	h.run("nft", "insert", "rule", "ip", "filter", "FORWARD", "iifname", "br1", "oifname", "br1", "accept")
	if !a.reaches("tcp", b.four, 80) {
		t.Error("the advice does not help")
	}
}
