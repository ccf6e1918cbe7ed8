package nftables

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
)

// Warnings returns what on this host keeps security groups from being enforced, or drops what they permit, each as a
// sentence.
func Warnings(ctx context.Context) (sentences []string) {
	out, err := run(ctx, "", "list", "chains")
	if err != nil {
		return []string{fault.TextOf(err)}
	}
	if _, err := os.Stat(bridgeSettings); err != nil {
		if _, err := runProgram(ctx, "modprobe", "", "--dry-run", "br_netfilter"); err != nil {
			sentences = append(sentences, "security groups are not enforced: the kernel has no module br_netfilter; "+
				"install it")
		}
	}
	for _, chain := range droppers(out) {
		sentences = append(sentences, fmt.Sprintf("the chain %s drops what no rule of it accepts, also frames between "+
			"two guests of a bridge that security groups permit; add a rule: nft insert rule %s iifname "+
			"BRIDGE oifname BRIDGE accept", chain, chain))
	}
	if sentence := fullTable(kernelNumber("nf_conntrack_count"), kernelNumber("nf_conntrack_max")); sentence != "" {
		sentences = append(sentences, sentence)
	}
	return sentences
}

// kernelNumber returns a setting or a counter of the kernel's connection tracking; 0: the kernel does not track.
func kernelNumber(name string) int {
	text, err := os.ReadFile("/proc/sys/net/netfilter/" + name)
	n, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || err2 != nil {
		return 0
	}
	return n
}

// fullTable returns a sentence if the kernel's table of connections, which all guests and the host share, is nearly
// full.
func fullTable(count, limit int) string {
	if limit == 0 || count < limit/4*3 {
		return ""
	}
	return fmt.Sprintf("the kernel's table has %d connections of at most %d, which all guests and the host share, and "+
		"new ones are dropped when it is full; raise it, for example with: sysctl -w net.netfilter.nf_conntrack_max=%d, and "+
		"find the guest that opens them with: conntrack -L", count, limit, limit*4)
}

// droppers returns the chains of other programs that drop forwarded packets by their policy, as "FAMILY TABLE CHAIN".
func droppers(listing string) (chains []string) {
	table, chain := "", ""
	for line := range strings.Lines(listing) {
		words := strings.Fields(line)
		switch {
		case len(words) > 2 && words[0] == "table":
			table = words[1] + " " + words[2]
		case len(words) > 1 && words[0] == "chain":
			chain = words[1]
		case strings.Contains(line, "hook forward") && strings.Contains(line, "policy drop") &&
			!strings.HasPrefix(table, "bridge ") && !strings.HasPrefix(table, "arp "):
			chains = append(chains, table+" "+chain)
		}
	}
	return chains
}
