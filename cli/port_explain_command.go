package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
)

// PortExplainCmd explains what the security groups of a port decide about a packet.
type PortExplainCmd struct {
	ID       string `arg:"" name:"port" help:"Name or id of the port."`
	From     string `help:"The address that sends the packet to the port." placeholder:"ADDRESS" xor:"end"`
	To       string `help:"The address to which the port sends the packet." placeholder:"ADDRESS" xor:"end"`
	Protocol string `help:"Name or number of the protocol." default:"tcp" placeholder:"PROTOCOL"`
	Port     *int   `help:"Destination port." placeholder:"NUMBER"`
	Type     *int   `help:"Type of ICMP. Default: an echo request." placeholder:"NUMBER"`
	Code     *int   `help:"Code of ICMP." placeholder:"NUMBER"`
	Address  string `help:"The address of the port. Default: its first one." placeholder:"ADDRESS"`
}

// Run prints the decision and its reason.
func (c *PortExplainCmd) Run(g *Globals) error {
	if (c.From == "") == (c.To == "") {
		return fault.New(fault.Invalid, "the other end of the packet is missing; add --from ADDRESS or --to ADDRESS")
	}
	ctx, cancel := g.context()
	defer cancel()
	id, err := g.portID(ctx, c.ID)
	if err != nil {
		return err
	}
	q := url.Values{"protocol": {c.Protocol}}
	for name, value := range map[string]string{"from": c.From, "to": c.To, "address": c.Address} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, value := range map[string]*int{"port": c.Port, "type": c.Type, "code": c.Code} {
		if value != nil {
			q.Set(name, strconv.Itoa(*value))
		}
	}
	d, err := g.networks().ExplainPacket(ctx, id, q)
	if err != nil {
		return err
	}
	if g.Output == "json" {
		return writeJSON(g.stdout(), d)
	}
	fmt.Fprintln(g.stdout(), c.sentence(d))
	if d.NotEnforced != "" {
		fmt.Fprintln(g.stdout(), "This is not enforced:", d.NotEnforced)
	}
	return nil
}

// sentence returns a decision as a sentence.
func (c *PortExplainCmd) sentence(d network.PacketDecision) string {
	packet := fmt.Sprintf("%s from %s to %s", c.Protocol, cmp.Or(c.From, d.Address), cmp.Or(c.To, d.Address))
	if c.Port != nil {
		packet += fmt.Sprintf(" port %d", *c.Port)
	}
	switch {
	case d.Rule != "":
		return fmt.Sprintf("%s passes: rule %s of security group %s permits it.", packet, d.Rule,
			cmp.Or(d.GroupName, d.Group))
	case d.Allowed:
		return fmt.Sprintf("%s passes: %s.", packet, d.Reason)
	}
	return fmt.Sprintf("%s is dropped: %s.", packet, d.Reason)
}
