package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
)

// LaunchCmd creates a server and waits until it runs.
type LaunchCmd struct {
	Name    string `arg:"" help:"Name of the server."`
	Image   string `required:"" help:"Name or id of the image." placeholder:"IMAGE"`
	Flavor  string `help:"Name or id of the flavor. Default: small, or the smallest that the image fits on." placeholder:"FLAVOR"`
	Network string `help:"Name or id of the network; none for no network. Default: private, or the only one." placeholder:"NETWORK"`
	Key     string `help:"Name of the key pair; none for no key pair. Default: berth, or the only one." placeholder:"KEY"`
}

// The names that launch prefers, which are those of `berth init`, and the word for nothing.
const (
	usualFlavor  = "small"
	usualNetwork = "private"
	nothing      = "none"
)

// launchTime is the time limit of a launch: the host may have to download the image.
const launchTime = 15 * time.Minute

// launched is the result of a launch.
type launched struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Status    string   `json:"status"`
	Host      string   `json:"host,omitempty"`
	Flavor    string   `json:"flavor"`
	Addresses []string `json:"addresses"`
	SSH       string   `json:"ssh,omitempty"` // the command
}

// Run creates the server, waits for it and prints its address.
func (c *LaunchCmd) Run(g *Globals) error {
	ctx, cancel := context.WithTimeout(g.untilInterrupted(), launchTime)
	defer cancel()
	image, err := readLaunchImage(ctx, g, c.Image)
	if err != nil {
		return err
	}
	want := compute.CreateServer{Name: c.Name, Image: image.ID}
	flavor, err := c.chooseFlavor(ctx, g, image)
	if err != nil {
		return err
	}
	want.Flavor = flavor.ID
	if want.Networks, err = c.chooseNetwork(ctx, g); err != nil {
		return err
	}
	if want.KeyName, err = c.chooseKey(ctx, g); err != nil {
		return err
	}
	fmt.Fprintf(g.stderr(), "creating %s: image %s, flavor %s, network %s, key pair %s\n", c.Name, image.Name, flavor.Name,
		networkWord(want.Networks, c.Network), cmp.Or(want.KeyName, nothing))
	made, err := g.compute().CreateServer(ctx, want)
	if err != nil {
		return err
	}
	list, err := g.watch().built(ctx, func() ([]compute.Server, error) {
		s, err := g.compute().Server(ctx, made.ID)
		return []compute.Server{s}, err
	})
	if err != nil {
		return err
	}
	if err := failures(list); err != nil {
		why, explained := g.compute().Why(ctx, made.ID)
		if explained != nil || PrintWhy(g.stderr(), why, nil, false) != nil {
			return err
		}
		return fault.New(fault.Conflict, "server %s cannot run, the reason is above; delete it with `berth server delete %s`",
			c.Name, made.ID)
	}
	return printLaunched(g, list[0], flavor, image)
}

// printLaunched prints a server that runs.
func printLaunched(g *Globals, s compute.Server, flavor compute.Flavor, image launchImage) error {
	result := launched{ID: s.ID, Name: s.Name, Status: statusOf(s), Host: hostOf(s), Flavor: flavor.Name,
		Addresses: []string{}}
	for _, name := range slices.Sorted(maps.Keys(s.Addresses)) {
		for _, one := range s.Addresses[name] {
			result.Addresses = append(result.Addresses, one.Address)
		}
	}
	if len(result.Addresses) > 0 {
		result.SSH = "ssh " + result.Addresses[0]
		if image.User != "" {
			result.SSH = "ssh " + image.User + "@" + result.Addresses[0]
		} else {
			fmt.Fprintf(g.stderr(), "the image has no os_admin_user: give ssh its user, often the distribution's name or root "+
				"(ssh -l debian %s)\n", result.Addresses[0])
		}
	}
	if local, err := net.InterfaceAddrs(); err == nil && len(result.Addresses) > 0 {
		if note := outside(local, result.Addresses[0], result.Host); note != "" {
			fmt.Fprintln(g.stderr(), note)
		}
	}
	rows := pairs("id", result.ID, "name", result.Name, "status", result.Status, "host", dash(result.Host), "flavor",
		result.Flavor, "addresses", dash(strings.Join(result.Addresses, ", ")), "ssh", dash(result.SSH))
	if err := g.print(result, []string{"Field", "Value"}, rows); err != nil {
		return err
	}
	if s.Status != "ACTIVE" {
		return fault.New(fault.Conflict, "server %s is %s: its guest has stopped; see `berth server why %s`, "+
			"and start it with `berth server start %s`", s.Name, result.Status, s.ID, s.ID)
	}
	return nil
}

// outside returns a note for a machine with these addresses, none of which is in the network of a server: then ssh may
// not reach the server from there. host may be empty.
func outside(local []net.Addr, address, host string) string {
	ip := net.ParseIP(address)
	for _, one := range local {
		if network, ok := one.(*net.IPNet); ok && network.Contains(ip) {
			return ""
		}
	}
	where := "a host that has servers of the network"
	if host != "" {
		where = "host " + host + ", which has it"
	}
	return fmt.Sprintf("this machine has no address in the network of %s: if ssh does not reach it from here, run ssh on "+
		"%s", address, where)
}

// launchImage is what launch uses of an image.
type launchImage struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Status  string `json:"status"`
	MinDisk int    `json:"min_disk"` // GiB
	MinRAM  int    `json:"min_ram"`  // MiB
	Virtual *int64 `json:"virtual_size"`
	User    string `json:"os_admin_user"` // Glance's property: the account of the administrator in the guest
}

// disk returns the least root disk for the image, in GiB.
func (i launchImage) disk() int {
	least := i.MinDisk
	if i.Virtual != nil {
		least = max(least, int((*i.Virtual+1<<30-1)>>30))
	}
	return least
}

// readLaunchImage reads an image by name or id.
func readLaunchImage(ctx context.Context, g *Globals, name string) (i launchImage, err error) {
	id, err := imageID(ctx, g, name)
	if err != nil {
		return i, err
	}
	if _, err := g.images().REST.Do(ctx, http.MethodGet, "/v2/images/"+url.PathEscape(id), nil, &i); err != nil {
		return i, err
	}
	if i.Status != "active" {
		return i, fault.New(fault.Conflict, "image %s is %s; upload its data with `berth image add --resume %s FILE`",
			cmp.Or(i.Name, id), i.Status, id)
	}
	return i, nil
}

// chooseFlavor returns the named flavor, else the usual one, else the smallest on which the image fits.
func (c *LaunchCmd) chooseFlavor(ctx context.Context, g *Globals, image launchImage) (compute.Flavor, error) {
	if c.Flavor != "" {
		return g.compute().Flavor(ctx, c.Flavor)
	}
	all, err := g.compute().Flavors(ctx)
	if err != nil {
		return compute.Flavor{}, err
	}
	fit := slices.DeleteFunc(slices.Clone(all), func(f compute.Flavor) bool {
		return f.RAM < image.MinRAM || f.Disk > 0 && f.Disk < image.disk()
	})
	if len(fit) == 0 {
		return compute.Flavor{}, fault.New(fault.NotFound, "none of %d flavors has the %d MiB of memory and the %d GiB of "+
			"disk that image %s needs; create one with `berth flavor create`", len(all), image.MinRAM, image.disk(), image.Name)
	}
	slices.SortFunc(fit, func(a, b compute.Flavor) int {
		return cmp.Or(cmp.Compare(a.RAM, b.RAM), cmp.Compare(a.VCPUs, b.VCPUs), cmp.Compare(a.Disk, b.Disk),
			cmp.Compare(a.Name, b.Name))
	})
	if i := slices.IndexFunc(fit, func(f compute.Flavor) bool { return f.Name == usualFlavor }); i >= 0 {
		return fit[i], nil
	}
	return fit[0], nil
}

// chooseNetwork returns the named network, else the usual one, else the only one; none if there is none.
func (c *LaunchCmd) chooseNetwork(ctx context.Context, g *Globals) (compute.Networks, error) {
	if c.Network == nothing {
		return compute.Networks{Word: compute.NetworksNone}, nil
	}
	id := ""
	if c.Network != "" {
		var err error
		if id, err = g.networkID(ctx, c.Network); err != nil {
			return compute.Networks{}, err
		}
	} else {
		all, err := g.networks().Networks(ctx, nil)
		if err != nil {
			return compute.Networks{}, err
		}
		chosen, err := usualOf(all)
		if err != nil || chosen.ID == "" {
			return compute.Networks{Word: compute.NetworksNone}, err
		}
		id, c.Network = chosen.ID, chosen.Name
	}
	return compute.Networks{List: []compute.NetworkRequest{{Network: id}}}, nil
}

// usualOf returns the usual network, else the only one; an empty one if there is none. Other projects may have shared
// networks of the same name with the user, so a choice among several is the user's.
func usualOf(all []network.Network) (network.Network, error) {
	var usual []network.Network
	var ids []string
	for _, n := range all {
		if n.Name == usualNetwork {
			usual, ids = append(usual, n), append(ids, n.ID)
		}
	}
	switch {
	case len(usual) == 1:
		return usual[0], nil
	case len(usual) > 1:
		return network.Network{}, severalNames("network", usualNetwork, ids)
	case len(all) == 1:
		return all[0], nil
	case len(all) > 1:
		return network.Network{}, fault.New(fault.Invalid, "there are %d networks and none is called %s; choose one with "+
			"--network (`berth network list` shows all)", len(all), usualNetwork)
	}
	return network.Network{}, nil
}

// networkWord returns the network of a request as the user knows it.
func networkWord(n compute.Networks, name string) string {
	if n.Word != "" {
		return n.Word
	}
	return name
}

// chooseKey returns the named key pair, else that of `berth init`, else the only one; empty if there is none.
func (c *LaunchCmd) chooseKey(ctx context.Context, g *Globals) (string, error) {
	if c.Key == nothing {
		return "", nil
	}
	var all struct {
		List []struct {
			Pair compute.KeyPair `json:"keypair"`
		} `json:"keypairs"`
	}
	if _, err := g.compute().REST.Do(ctx, http.MethodGet, "/v2.1/os-keypairs", nil, &all); err != nil {
		return "", err
	}
	var names []string
	for _, one := range all.List {
		names = append(names, one.Pair.Name)
	}
	switch {
	case c.Key != "" && !slices.Contains(names, c.Key):
		return "", unknownName("key pair", c.Key, names, "berth keypair list")
	case c.Key != "":
		return c.Key, nil
	case slices.Contains(names, DefaultCloud):
		return DefaultCloud, nil
	case len(names) == 1:
		return names[0], nil
	case len(names) > 1:
		return "", fault.New(fault.Invalid, "there are %d key pairs (%s); choose one with --key, or none", len(names),
			strings.Join(names, ", "))
	}
	return "", nil
}
