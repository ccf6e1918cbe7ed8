package cli

import (
	"strconv"

	"github.com/jaypipes/pcidb"

	"github.com/openberth/berth/api/host"
)

// DeviceCmd groups the commands on devices.
type DeviceCmd struct {
	List DeviceListCmd `cmd:"" help:"List devices: host, address, what it is, class, NUMA node, state, holder."`
}

// DeviceListCmd lists the devices that the agents report.
type DeviceListCmd struct {
	Host  string `help:"Only devices of this host."`
	State string `help:"Only devices in this state: ${enum}." enum:",available,claimed,allocated,unavailable,unclaimable,removed" default:""`
}

// Run prints the devices.
func (c *DeviceListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	all, err := g.hosts().Devices(ctx)
	if err != nil {
		return err
	}
	names := deviceNames()
	list, rows := []host.Device{}, [][]string{}
	for _, d := range all {
		if (c.Host != "" && c.Host != d.Host) || (c.State != "" && c.State != d.State) {
			continue
		}
		list = append(list, d)
		rows = append(rows, []string{d.Host, d.Address, d.VendorID + ":" + d.ProductID, dash(names(d.VendorID, d.ProductID)), d.Type,
			d.ResourceClass, numaText(d.NUMANode), d.State, dash(d.Holder)})
	}
	return g.print(list, []string{"Host", "Address", "ID", "Name", "Type", "Class", "NUMA", "State", "Holder"}, rows)
}

func numaText(node int) string {
	if node < 0 {
		return "-"
	}
	return strconv.Itoa(node)
}

// deviceNames looks names up in the machine's pci.ids; without that file there are none, which is no error.
func deviceNames() func(vendor, product string) string {
	db, err := pcidb.New()
	if err != nil {
		return func(string, string) string { return "" }
	}
	return func(vendor, product string) string {
		if p, ok := db.Products[vendor+product]; ok {
			if v, ok := db.Vendors[vendor]; ok {
				return v.Name + " " + p.Name
			}
			return p.Name
		}
		if v, ok := db.Vendors[vendor]; ok {
			return v.Name
		}
		return ""
	}
}
