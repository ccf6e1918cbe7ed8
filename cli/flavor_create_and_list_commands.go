package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/compute"
)

// FlavorCmd groups the commands on flavors.
type FlavorCmd struct {
	Create FlavorCreateCmd `cmd:"" help:"Create a flavor."`
	List   FlavorListCmd   `cmd:"" help:"List flavors with their extra specs."`
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
	rows := [][]string{}
	for _, f := range list {
		rows = append(rows, flavorRow(f))
	}
	if list == nil {
		list = []compute.Flavor{}
	}
	return g.print(list, flavorHeader(), rows)
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
