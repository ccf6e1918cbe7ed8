package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// ServerCreateCmd creates servers.
type ServerCreateCmd struct {
	Name   string `arg:"" help:"Name; with --count, -1, -2, … is appended."`
	Flavor string `required:"" help:"Name or id of the flavor."`
	Image  string `help:"UUID of the image." placeholder:"UUID"`
	Count  int    `help:"Number of servers." default:"1"`
	Wait   bool   `help:"Wait until each is ACTIVE or ERROR; fail if any is in ERROR."`
}

// Run creates the servers and prints them.
func (c *ServerCreateCmd) Run(g *Globals) error {
	if c.Count < 1 {
		return fault.New(fault.Invalid, "", "--count %d is not valid: it must be 1 or more", c.Count)
	}
	ctx, cancel := g.context()
	defer cancel()
	client := g.compute()
	f, err := client.Flavor(ctx, c.Flavor)
	if err != nil {
		return err
	}
	made, err := client.CreateServer(ctx, compute.CreateServer{Name: c.Name, Flavor: f.ID, Image: c.Image,
		MinCount: c.Count, MaxCount: c.Count, Reservation: c.Count > 1})
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
	list, err := read()
	for c.Wait && err == nil && building(list) {
		if err = pause(ctx); err == nil {
			list, err = read()
		}
	}
	if err != nil {
		return err
	}
	if err := g.printServers(list); err != nil {
		return err
	}
	return failures(list)
}

func building(list []compute.Server) bool {
	for _, s := range list {
		if s.Status == "BUILD" {
			return true
		}
	}
	return false
}

// failures returns the fault of the first server in ERROR.
func failures(list []compute.Server) error {
	for _, s := range list {
		if s.Status == "ERROR" && s.Fault != nil {
			return fault.New(fault.NoCapacity, "", "server %s is in ERROR: %s; see `berth server why %s`", s.Name,
				s.Fault.Message, s.ID)
		}
	}
	return nil
}

func pause(ctx context.Context) error {
	if backoff.Sleep(ctx, 100*time.Millisecond) != nil {
		return fault.New(fault.Unavailable, "", "not finished in time: the operation continues; see `berth server list`")
	}
	return nil
}

func (g *Globals) printServers(list []compute.Server) error {
	rows := [][]string{}
	for _, s := range list {
		rows = append(rows, []string{s.ID, s.Name, statusOf(s), dash(hostOf(s)), dash(faultOf(s))})
	}
	if list == nil {
		list = []compute.Server{}
	}
	return g.print(list, []string{"ID", "Name", "Status", "Host", "Fault"}, rows)
}

// statusOf returns the status with the task in progress: "ACTIVE/deleting".
func statusOf(s compute.Server) string {
	if s.TaskState == nil || *s.TaskState == "" {
		return s.Status
	}
	return s.Status + "/" + *s.TaskState
}

func hostOf(s compute.Server) string {
	if s.Place == nil || s.Place.Host == nil {
		return ""
	}
	return *s.Place.Host
}

func faultOf(s compute.Server) string {
	if s.Fault == nil {
		return ""
	}
	return s.Fault.Message
}

// ServerListCmd lists servers.
type ServerListCmd struct {
	Name    string `help:"Only names that match this regular expression."`
	Status  string `help:"Only servers in this status."`
	Host    string `help:"Only servers on this host."`
	All     bool   `help:"Servers of all projects." default:"true" negatable:""`
	Deleted bool   `help:"Only deleted servers."`
}

// Run prints the servers.
func (c *ServerListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	list, err := g.compute().Servers(ctx, compute.ListServers{Name: c.Name, Status: c.Status, Host: c.Host,
		AllProjects: c.All, Deleted: c.Deleted})
	if err != nil {
		return err
	}
	return g.printServers(list)
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
		"created", s.Created.String(), "updated", s.Updated.String(), "fault", dash(faultOf(s)))
	if image, ok := s.Image.(map[string]any); ok {
		rows = append(rows, []string{"image", fmt.Sprint(image["id"])})
	}
	if s.Flavor.FlavorValues != nil {
		rows = append(rows, []string{"flavor", s.Flavor.Name})
	}
	devices, err := g.hosts().Devices(ctx)
	if err != nil && !fault.Is(err, fault.Forbidden) { // only administrators may list devices
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
	Wait    bool     `help:"Wait until they no longer exist."`
}

// Run deletes each server; with --wait it returns when they no longer exist.
func (c *ServerDeleteCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	client := g.compute()
	ids := []string{}
	for _, name := range c.Servers {
		s, err := client.Server(ctx, name)
		if err != nil {
			return err
		}
		ids = append(ids, s.ID)
	}
	for _, id := range ids {
		if err := client.DeleteServer(ctx, id); err != nil {
			return err
		}
	}
	for _, id := range ids {
		for c.Wait {
			if _, err := client.Server(ctx, id); fault.Is(err, fault.NotFound) {
				break
			} else if err != nil {
				return err
			}
			if err := pause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
