package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// FlavorCmd groups the commands on flavors.
type FlavorCmd struct {
	Create FlavorCreateCmd `cmd:"" help:"Create a flavor."`
	List   FlavorListCmd   `cmd:"" help:"List flavors with their extra specs."`
	Show   FlavorShowCmd   `cmd:"" help:"Show a flavor."`
	Set    FlavorSetCmd    `cmd:"" help:"Change the extra specs and the description of a flavor. Existing servers keep what they have."`
	Check  FlavorCheckCmd  `cmd:"" help:"Check the requests of flavors, and count the hosts that could have such a server now."`
	Delete FlavorDeleteCmd `cmd:"" help:"Delete flavors. Servers made from them keep what they have."`
}

// FlavorCreateCmd creates a flavor and sets its extra specs.
type FlavorCreateCmd struct {
	Name     string            `arg:"" help:"Name."`
	ID       string            `help:"Id; without it compute generates one."`
	VCPUs    int               `name:"vcpus" help:"Virtual CPUs." default:"1"`
	RAM      int               `name:"ram" help:"Memory in MiB." default:"512"`
	Disk     int               `help:"Root disk in GiB." default:"0"`
	Property map[string]string `help:"Extra spec, such as pci_passthrough:alias=gpu:1; may be repeated." placeholder:"KEY=VALUE" mapsep:"none"`
}

// Run creates the flavor. If its extra specs are not valid, it deletes the flavor again.
func (c *FlavorCreateCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	client := g.compute()
	f, err := client.CreateFlavor(ctx, compute.CreateFlavor{ID: c.ID, Name: c.Name, VCPUs: c.VCPUs, RAM: c.RAM,
		Disk: c.Disk})
	if err != nil {
		return err
	}
	if len(c.Property) > 0 {
		if err := client.SetExtraSpecs(ctx, f.ID, c.Property); err != nil {
			if undo := client.DeleteFlavor(ctx, f.ID); undo != nil {
				return fmt.Errorf("%w; the flavor %s remains without extra specs: %w", err, f.ID, undo)
			}
			return err
		}
	}
	f, err = client.Flavor(ctx, f.ID)
	if err != nil {
		return err
	}
	return g.print(f, flavorHeader(), [][]string{flavorRow(f)})
}

// FlavorListCmd lists flavors.
type FlavorListCmd struct{}

// Run prints the flavors.
func (c *FlavorListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	list, err := g.compute().Flavors(ctx)
	if err != nil {
		return err
	}
	var columns []column[compute.Flavor]
	for i, name := range flavorHeader() {
		columns = append(columns, column[compute.Flavor]{name: name,
			text: func(f compute.Flavor) string { return flavorRow(f)[i] }})
	}
	return printList(g, list, "Name", false, columns)
}

func flavorHeader() []string {
	return []string{"ID", "Name", "VCPUs", "RAM", "Disk", "Extra specs"}
}

func flavorRow(f compute.Flavor) []string {
	specs := []string{}
	for _, key := range sortedKeys(f.ExtraSpecs) {
		specs = append(specs, key+"="+f.ExtraSpecs[key])
	}
	return []string{f.ID, f.Name, strconv.Itoa(f.VCPUs), strconv.Itoa(f.RAM), strconv.Itoa(f.Disk),
		dash(strings.Join(specs, " "))}
}

// FlavorShowCmd shows a flavor.
type FlavorShowCmd struct {
	Flavor string `arg:"" help:"Name or id."`
}

// Run prints the flavor.
func (c *FlavorShowCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	f, err := g.compute().Flavor(ctx, c.Flavor)
	if err != nil {
		return err
	}
	return printFlavor(g, f)
}

func printFlavor(g *Globals, f compute.Flavor) error {
	description := ""
	if f.Described != nil && f.Description != nil {
		description = *f.Description
	}
	rows := pairs("id", f.ID, "name", f.Name, "description", dash(description), "vcpus", strconv.Itoa(f.VCPUs),
		"ram (MiB)", strconv.Itoa(f.RAM), "disk (GiB)", strconv.Itoa(f.Disk),
		"ephemeral (GiB)", strconv.Itoa(f.Ephemeral), "swap (MiB)",
		strconv.Itoa(int(f.Swap)), "public", yes(f.Public))
	for _, key := range sortedKeys(f.ExtraSpecs) {
		rows = append(rows, []string{"property " + key, f.ExtraSpecs[key]})
	}
	return g.print(f, []string{"Field", "Value"}, rows)
}

// FlavorSetCmd changes a flavor.
type FlavorSetCmd struct {
	Flavor      string            `arg:"" help:"Name or id."`
	Property    map[string]string `help:"Extra spec to set, such as pci_passthrough:alias=gpu:1; may be repeated." placeholder:"KEY=VALUE" mapsep:"none"`
	Unset       []string          `help:"Extra spec to remove; may be repeated." placeholder:"KEY" sep:"none"`
	Description *string           `help:"New description; empty: none."`
}

// Validate checks that something changes.
func (c *FlavorSetCmd) Validate() error {
	if len(c.Property) == 0 && len(c.Unset) == 0 && c.Description == nil {
		return fault.New(fault.Invalid, "nothing to change: give --property, --unset or --description")
	}
	return nil
}

// Run changes the flavor and prints it.
func (c *FlavorSetCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	client := g.compute()
	f, err := client.Flavor(ctx, c.Flavor)
	if err != nil {
		return err
	}
	if len(c.Property) > 0 {
		if err := client.SetExtraSpecs(ctx, f.ID, c.Property); err != nil {
			return err
		}
	}
	for _, key := range c.Unset {
		if err := client.UnsetExtraSpec(ctx, f.ID, key); err != nil {
			return err
		}
	}
	if c.Description != nil {
		if err := client.DescribeFlavor(ctx, f.ID, *c.Description); err != nil {
			return err
		}
	}
	if f, err = client.Flavor(ctx, f.ID); err != nil {
		return err
	}
	return printFlavor(g, f)
}

// FlavorDeleteCmd deletes flavors.
type FlavorDeleteCmd struct {
	Flavors []string `arg:"" name:"flavor" help:"Names or ids."`
}

// flavorResult is the result for one flavor.
type flavorResult struct {
	Flavor string `json:"flavor"` // as the user named it
	ID     string `json:"id,omitempty"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// Run deletes each flavor, also after failures, and prints the results.
func (c *FlavorDeleteCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	results, rows, failed := []flavorResult{}, [][]string{}, []error(nil)
	for _, name := range c.Flavors {
		r := flavorResult{Flavor: name, Result: "deleted"}
		f, err := g.compute().Flavor(ctx, name)
		if err == nil {
			r.ID = f.ID
			err = g.compute().DeleteFlavor(ctx, f.ID)
		}
		if err != nil {
			r.Result, r.Error = "failed", fault.TextOf(err)
			failed = append(failed, of(name, len(c.Flavors), err))
		}
		results = append(results, r)
		rows = append(rows, []string{name, dash(r.ID), r.Result})
	}
	printed := g.print(results, []string{"Flavor", "ID", "Result"}, rows)
	return errors.Join(printed, several(len(c.Flavors), "flavors", failed))
}
