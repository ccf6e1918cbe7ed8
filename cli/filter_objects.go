package cli

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
)

// groupKind is the kind of the commands on security groups.
type groupKind struct{}

func (groupKind) kind() *kind { return kinds["security group"] }

// SecurityGroupCmd groups the commands on security groups.
type SecurityGroupCmd struct {
	Create createOfKind[groupKind, groupFlags] `cmd:"" help:"Create a security group. Its ports send everything and receive nothing until it has rules."`
	List   listOfKind[groupKind]               `cmd:"" help:"List security groups."`
	Show   showOfKind[groupKind]               `cmd:"" help:"Show a security group with its rules."`
	Set    setOfKind[groupKind, groupChanges]  `cmd:"" help:"Change a security group."`
	Delete deleteOfKind[groupKind]             `cmd:"" help:"Delete security groups."`
	Rule   securityRuleCmd                     `cmd:"" help:"Add, list and remove the rules of security groups."`
}

// groupChanges are the attributes of a security group that can be changed.
type groupChanges struct {
	Description *string `api:"description" help:"Description." placeholder:"TEXT"`
	Stateful    *bool   `api:"stateful" help:"Answers to permitted packets are permitted." negatable:""`
}

// groupFlags are the attributes of a new security group.
type groupFlags struct {
	groupChanges
	Project *string `api:"project_id" help:"Project that owns the group." placeholder:"PROJECT"`
}

// securityRuleCmd groups the commands on rules of security groups.
type securityRuleCmd struct {
	Add    securityRuleAdd    `cmd:"" help:"Add a rule to a security group."`
	List   securityRuleList   `cmd:"" help:"List the rules of a security group, or of all."`
	Remove securityRuleRemove `cmd:"" help:"Remove rules."`
}

// securityRuleAdd adds a rule.
type securityRuleAdd struct {
	Group       string  `arg:"" api:"security_group_id" of:"security group" help:"Name or id of the security group."`
	Egress      bool    `help:"The rule permits packets from the ports of the group. Default: packets to them."`
	Protocol    *string `api:"protocol" help:"Protocol: tcp, udp, icmp, another name or a number. Default: any." placeholder:"NAME"`
	Port        *string `name:"port" help:"Destination port, or FIRST:LAST; the type and code of ICMP are --port TYPE[:CODE]. Default: any." placeholder:"PORT"`
	RemoteIP    *string `name:"remote-ip" api:"remote_ip_prefix" help:"Other addresses. Default: any." placeholder:"CIDR"`
	RemoteGroup *string `name:"remote-group" api:"remote_group_id" of:"security group" help:"Name or id of a security group whose ports are the other side." placeholder:"GROUP"`
	Ethertype   *string `api:"ethertype" help:"IPv4 or IPv6. Default: that of --remote-ip, or IPv4." enum:"IPv4,IPv6" placeholder:"TYPE"`
	Description *string `api:"description" help:"Description." placeholder:"TEXT"`
}

// Run adds the rule and prints it.
func (c *securityRuleAdd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	group, err := kinds["security group"].find(ctx, g, c.Group)
	if err != nil {
		return err
	}
	set, err := attributesOf(ctx, g, c, group.text("project_id"))
	if err != nil {
		return err
	}
	set["direction"] = "ingress"
	if c.Egress {
		set["direction"] = "egress"
	}
	if c.Ethertype == nil && c.RemoteIP != nil && strings.Contains(*c.RemoteIP, ":") {
		set["ethertype"] = "IPv6"
	}
	if err := c.setPorts(set); err != nil {
		return err
	}
	made, err := kinds["security group rule"].create(ctx, g, set)
	if err != nil {
		return err
	}
	return printObject(g, made)
}

// setPorts sets the range of ports, or the type and code of ICMP.
func (c *securityRuleAdd) setPorts(set map[string]any) error {
	if c.Port == nil {
		return nil
	}
	first, last, several := strings.Cut(*c.Port, ":")
	from, err := strconv.Atoi(first)
	to := from
	if err == nil && several {
		to, err = strconv.Atoi(last)
	}
	switch {
	case err != nil:
		return fault.New(fault.Invalid, "--port %q is not valid: write a number, or FIRST:LAST", *c.Port)
	case c.Protocol == nil:
		return fault.New(fault.Invalid, "--port needs --protocol, such as tcp or udp")
	}
	set["port_range_min"], set["port_range_max"] = from, to
	if strings.Contains(*c.Protocol, "icmp") && !several {
		delete(set, "port_range_max")
	}
	return nil
}

// securityRuleList lists rules.
type securityRuleList struct {
	Group string `arg:"" optional:"" help:"Name or id of the security group; without it all rules."`
	LongOutput
}

// Run prints the rules.
func (c *securityRuleList) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	filter, k := url.Values{}, kinds["security group rule"]
	if c.Group != "" {
		id, err := kinds["security group"].idOf(ctx, g, c.Group)
		if err != nil {
			return err
		}
		filter.Set("security_group_id", id)
	}
	all, err := k.list(ctx, g, filter)
	if err != nil {
		return err
	}
	known := names{}
	if g.Output != "json" && !c.Long {
		known = k.namesFor(ctx, g)
	}
	return printObjects(g, k, all, known, c.Long)
}

// securityRuleRemove removes rules.
type securityRuleRemove struct {
	Rules []string `arg:"" name:"rule" help:"Ids of rules, which have no names."`
}

// Run removes the rules.
func (c *securityRuleRemove) Run(g *Globals) error {
	return deleteEach(g, kinds["security group rule"], c.Rules)
}
