package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// ServerCreateCmd creates servers.
type ServerCreateCmd struct {
	Name   string `arg:"" help:"Name; with --count, -1, -2, … is appended."`
	Flavor string `required:"" help:"Name or id of the flavor."`
	Image  string `help:"Name or id of the image." placeholder:"IMAGE"`
	Count  int    `help:"Number of servers." default:"1"`
	NetworkChoice
	SecurityGroup []string `name:"security-group" help:"Name or id of a security group of the ports that are created in networks; may be repeated. Default: the group default." placeholder:"GROUP"`
	Key           string   `help:"Name of the key pair whose public key the guest gets." placeholder:"KEY"`
	UserData      string   `help:"File with the user data for cloud-init in the guest." type:"path" placeholder:"FILE"`
	Wait          bool     `help:"Wait until each is ACTIVE or ERROR; fail if any is in ERROR."`
}

// Validate checks the flags.
func (c *ServerCreateCmd) Validate() error {
	if c.Count < 1 {
		return fault.New(fault.Invalid, "--count %d is not valid: it must be 1 or more", c.Count)
	}
	if len(c.SecurityGroup) > 0 && (len(c.Network) == 0 || c.Network[0].name == compute.NetworksNone) {
		return fault.New(fault.Invalid, "--security-group needs --network: it is for the ports that are created; set the "+
			"groups of other ports with `berth port set`")
	}
	return c.NetworkChoice.Validate()
}

// maxUserData is the largest file with user data, in bytes: the Compute API has 65535 characters of base64 for it.
const maxUserData = 65535 / 4 * 3

// guestData adds the key pair, the security groups and the user data to a request. They are looked up before anything
// is created.
func (c *ServerCreateCmd) guestData(ctx context.Context, g *Globals, want *compute.CreateServer) (err error) {
	if c.Key != "" {
		if want.KeyName, err = kinds["key pair"].idOf(ctx, g, c.Key); err != nil {
			return err
		}
	}
	for _, name := range c.SecurityGroup {
		id, err := kinds["security group"].idOf(ctx, g, name)
		switch {
		case fault.Is(err, fault.Conflict): // one for each project: compute chooses that of the server
			id = name
		case err != nil:
			return err
		}
		want.Groups = append(want.Groups, compute.GroupName{Name: id})
	}
	if c.UserData == "" {
		return nil
	}
	data, err := os.ReadFile(c.UserData)
	switch {
	case err != nil:
		return fault.New(fault.Invalid, "the user data cannot be read: %w", err)
	case len(data) > maxUserData:
		return fault.New(fault.Invalid, "%s has %d bytes: user data have at most %d; load the rest from the guest",
			c.UserData, len(data), maxUserData)
	}
	want.UserData = base64.StdEncoding.EncodeToString(data)
	return nil
}

// Run creates the servers and prints them.
func (c *ServerCreateCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	client := g.compute()
	f, err := client.Flavor(ctx, c.Flavor)
	if err != nil {
		return err
	}
	networks, err := c.requested(ctx, g)
	if err != nil {
		return err
	}
	image, err := imageID(ctx, g, c.Image)
	if err != nil {
		return err
	}
	want := compute.CreateServer{Name: c.Name, Flavor: f.ID, Image: image, Networks: networks, MinCount: c.Count,
		MaxCount: c.Count, Reservation: c.Count > 1}
	if err := c.guestData(ctx, g, &want); err != nil {
		return err
	}
	made, err := client.CreateServer(ctx, want)
	if err != nil {
		return err
	}
	filter := compute.ListServers{Reservation: made.Reservation}
	read := func() ([]compute.Server, error) {
		if c.Count > 1 {
			return client.Servers(ctx, filter)
		}
		s, err := client.Server(ctx, made.ID)
		return []compute.Server{s}, err
	}
	var list []compute.Server
	if c.Wait {
		list, err = g.watch().built(ctx, read)
	} else {
		list, err = read()
	}
	if err != nil {
		return err
	}
	if err := g.printWaited(ctx, list); err != nil {
		return err
	}
	return failures(list)
}

// ServerListCmd lists servers.
type ServerListCmd struct {
	Name    string `help:"Only names that match this regular expression."`
	Status  string `help:"Only servers in this status."`
	Host    string `help:"Only servers on this host."`
	All     *bool  `help:"Servers of all projects, or with --no-all of one's own. Default: all that the user may list." negatable:""`
	Deleted bool   `help:"Only deleted servers."`
	LongOutput
}

// Run prints the servers.
func (c *ServerListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	if err := knownHost(ctx, g, c.Host); err != nil {
		return err
	}
	wanted := compute.ListServers{Name: c.Name, Status: c.Status, Host: c.Host, AllProjects: c.All == nil || *c.All,
		Deleted: c.Deleted}
	list, err := g.compute().Servers(ctx, wanted)
	if c.All == nil && fault.Is(err, fault.Forbidden) { // the user lists one project only
		wanted.AllProjects = false
		list, err = g.compute().Servers(ctx, wanted)
	}
	if err != nil {
		return err
	}
	return g.printServers(ctx, list, c.Long)
}

// ServerShowCmd shows one server.
type ServerShowCmd struct {
	Server string `arg:"" help:"Name or id."`
}

// Run prints the server with the devices that it holds.
func (c *ServerShowCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	s, err := g.compute().Server(ctx, c.Server)
	if err != nil {
		return err
	}
	rows := pairs("id", s.ID, "name", s.Name, "status", statusOf(s), "project", s.ProjectID, "user", s.UserID, "host",
		dash(hostOf(s)),
		"created", localTime(s.Created.Time), "updated", localTime(s.Updated.Time), "fault", dash(faultOf(s)))
	if image, ok := s.Image.(map[string]any); ok {
		rows = append(rows, []string{"image", fmt.Sprint(image["id"])})
	}
	if s.Flavor.FlavorValues != nil {
		rows = append(rows, []string{"flavor", s.Flavor.Name})
	}
	if all := addressesText(s); all != "" {
		rows = append(rows, []string{"addresses", all})
	}
	devices, err := g.hosts().Devices(ctx)
	if err != nil && !fault.Is(err, fault.Forbidden) { // users do not see the devices of hosts
		return err
	}
	for _, d := range devices {
		if d.Holder == s.ID {
			rows = append(rows, []string{"device", fmt.Sprintf("%s on %s, %s:%s %s", d.Address, d.Host, d.VendorID, d.ProductID,
				d.Type)})
		}
	}
	return g.print(s, []string{"Field", "Value"}, rows)
}

// ServerDeleteCmd deletes servers.
type ServerDeleteCmd struct {
	Servers []string `arg:"" name:"server" help:"Names or ids."`
	Wait    bool     `help:"Wait until they no longer exist, or can be restored."`
	Force   bool     `help:"Delete them at once, also those that could be restored."`
}

// Run deletes each server and prints the results; with --wait it returns when they no longer exist.
func (c *ServerDeleteCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	results, good, failed := g.eachServer(ctx, c.Servers, "deletion requested",
		func(ctx context.Context, s compute.Server) error {
			if c.Force {
				return g.compute().Act(ctx, s.ID, "forceDelete", nil)
			}
			return g.compute().DeleteServer(ctx, s.ID)
		})
	watch := g.watch()
	for _, s := range good {
		if !c.Wait {
			break
		}
		result, err := watch.gone(ctx, s.ID, c.Force)
		if err != nil {
			failed = errors.Join(failed, of(s.Name, len(c.Servers), err))
			if ctx.Err() != nil {
				return failed
			}
			continue
		}
		for i := range results {
			if results[i].ID == s.ID {
				results[i].Result = result
			}
		}
	}
	return errors.Join(g.printResults(results), failed)
}
