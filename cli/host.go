package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/host"
)

// HostCmd groups the commands on hosts.
type HostCmd struct {
	List HostListCmd `cmd:"" help:"List hosts: when their agents last reported, and what is wrong on them."`
}

// HostListCmd lists the hosts whose agents have reported.
type HostListCmd struct{}

// Run prints the hosts.
func (c *HostListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	list, err := g.hosts().Hosts(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{}
	for _, h := range list {
		held := 0
		for _, d := range h.Devices {
			if d.Holder != "" {
				held++
			}
		}
		rows = append(rows, []string{h.Host, h.Seen.UTC().Format(time.RFC3339), strconv.Itoa(len(h.Devices)), strconv.Itoa(held),
			dash(strings.Join(h.Conditions, "; "))})
	}
	if list == nil {
		list = []host.Report{}
	}
	return g.print(list, []string{"Host", "Last report", "Devices", "Held", "Conditions"}, rows)
}
