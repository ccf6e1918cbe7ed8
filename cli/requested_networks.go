package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// networkArgument is one value of --network or --port.
type networkArgument struct {
	name         string // name or id of the network or port, or auto or none
	fixedIP, tag string
	after        int // how many words of the command line follow it; the two flags share one order
}

// NetworkArguments are the values of --network.
type NetworkArguments []networkArgument

// PortArguments are the values of --port.
type PortArguments []networkArgument

// Decode appends one value: NAME or ID, with the keys fixed-ip and tag.
func (n *NetworkArguments) Decode(ctx *kong.DecodeContext) error {
	one, err := decodeNetwork(ctx, "network", "fixed-ip", "tag")
	*n = append(*n, one)
	return err
}

// Decode appends one value: NAME or ID, with the key tag.
func (p *PortArguments) Decode(ctx *kong.DecodeContext) error {
	one, err := decodeNetwork(ctx, "port", "tag")
	*p = append(*p, one)
	return err
}

// decodeNetwork reads NAME[,KEY=VALUE]… It returns fault.Invalid for other keys.
func decodeNetwork(ctx *kong.DecodeContext, what string, keys ...string) (one networkArgument, err error) {
	token, err := ctx.Scan.PopValue(what)
	if err != nil {
		return one, err
	}
	words := strings.Split(token.String(), ",")
	one = networkArgument{name: words[0], after: ctx.Scan.Len()}
	if one.name == "" {
		return one, fault.New(fault.Invalid, "%q has no name; give the name or id of a %s", token.String(), what)
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case !slices.Contains(keys, key) || value == "":
			return one, fault.New(fault.Invalid, "%q is not valid after the %s: give %s=VALUE", word, what,
				strings.Join(keys, "=VALUE or "))
		case key == "tag":
			one.tag = value
		default:
			one.fixedIP = value
		}
	}
	return one, nil
}

// NetworkChoice has the flags for the ports of a new server.
type NetworkChoice struct {
	Network NetworkArguments `help:"A port in this network (name or id), with an address as NETWORK,fixed-ip=ADDRESS. auto: in the only network of the project; none: no ports. Default: none. May be repeated, also with --port; the order is kept." placeholder:"NETWORK"`
	Port    PortArguments    `help:"This port (name or id). May be repeated." placeholder:"PORT"`
}

// Validate checks that auto and none are the only value.
func (c *NetworkChoice) Validate() error {
	for _, n := range c.Network {
		word := n.name == compute.NetworksAuto || n.name == compute.NetworksNone
		if word && (len(c.Network)+len(c.Port) > 1 || n.fixedIP != "" || n.tag != "") {
			return fault.New(fault.Invalid, "--network %s excludes other networks, ports and keys", n.name)
		}
	}
	return nil
}

// requested returns what the flags request, in the order of the command line, with ids instead of names.
func (c *NetworkChoice) requested(ctx context.Context, g *Globals) (want compute.Networks, err error) {
	if len(c.Network) == 1 && slices.Contains([]string{compute.NetworksAuto, compute.NetworksNone}, c.Network[0].name) {
		return compute.Networks{Word: c.Network[0].name}, nil
	}
	type entry struct {
		after int
		compute.NetworkRequest
	}
	var all []entry
	for _, n := range c.Network {
		id, err := g.networkID(ctx, n.name)
		if err != nil {
			return want, err
		}
		all = append(all, entry{n.after, compute.NetworkRequest{Network: id, FixedIP: n.fixedIP, Tag: n.tag}})
	}
	for _, p := range c.Port {
		id, err := g.portID(ctx, p.name)
		if err != nil {
			return want, err
		}
		all = append(all, entry{p.after, compute.NetworkRequest{Port: id, Tag: p.tag}})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(b.after, a.after) })
	for _, one := range all {
		want.List = append(want.List, one.NetworkRequest)
	}
	return want, nil
}
