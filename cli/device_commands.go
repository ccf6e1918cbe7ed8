package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jaypipes/pcidb"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// DeviceCmd groups the commands on devices.
type DeviceCmd struct {
	List DeviceListCmd `cmd:"" help:"List devices with address, name, resource class, NUMA node, state and holder."`
	Show DeviceShowCmd `cmd:"" help:"Show one device."`

	Disable DeviceDisableCmd `cmd:"" help:"Take a device out of service: no further server gets it, and its holder keeps it."`
	Enable  DeviceEnableCmd  `cmd:"" help:"Put a device back into service, if it passes its health check."`

	Clean DeviceCleanCmd `cmd:"" help:"Clean a used device for one-time use: the agent of its host runs the cleaning program, then the device is available again."`
}

// DeviceCleanCmd cleans a device for one-time use.
type DeviceCleanCmd struct {
	Host    string        `arg:"" help:"Host that has the device."`
	Address string        `arg:"" help:"Address of the device, such as 0000:17:00.0."`
	Wait    time.Duration `help:"How long to wait until the device is clean." default:"5m"`

	pause time.Duration // between two polls; 0: one second
}

// Validate names the host as the missing argument if the only argument is an address.
func (c *DeviceCleanCmd) Validate() error { return needsHost("clean", c.Host, c.Address) }

// Run requests the cleaning and waits for its result. If it fails, the error has the reason that the agent reports.
func (c *DeviceCleanCmd) Run(g *Globals) error {
	ctx, cancel := context.WithTimeout(g.untilInterrupted(), c.Wait)
	defer cancel()
	before, err := g.report(ctx, c.Host)
	if err != nil {
		return err
	}
	if err := g.hosts().Clean(ctx, c.Host, c.Address); err != nil {
		return err
	}
	texts := condition.Texts(before.Conditions)
	for {
		h, err := g.report(ctx, c.Host)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			i := slices.IndexFunc(h.Devices, func(d host.Device) bool { return d.Address == c.Address })
			if i >= 0 && h.Devices[i].Refused != "" {
				return fault.New(fault.Conflict, "%s of %s is not clean: %s", c.Address, c.Host, h.Devices[i].Refused)
			}
			for _, one := range h.Conditions {
				if one.Kind == condition.Clean && one.Subject == c.Address && !slices.Contains(texts, one.Text) {
					return fault.New(fault.Conflict, "%s", one.Text)
				}
			}
			if i >= 0 && !h.Devices[i].Spent { // a missing device may come back
				return printClean(g, h.Devices[i])
			}
		}
		if backoff.Sleep(ctx, cmp.Or(c.pause, time.Second)) != nil {
			if cause := g.untilInterrupted().Err(); cause != nil {
				return &StoppedWaiting{Cause: cause, Look: "berth device show " + c.Host + " " + c.Address}
			}
			return fault.New(fault.Unavailable, "%s of %s is not clean after %s: the request remains until the agent has "+
				"handled it; see `berth device show` and `berth host list`", c.Address, c.Host, c.Wait)
		}
	}
}

// printClean prints that a device is clean.
func printClean(g *Globals, d host.Device) error {
	if g.Output == "json" {
		return g.print(d, nil, nil)
	}
	_, err := fmt.Fprintf(g.stdout(), "%s of %s is clean\n", d.Address, d.Host)
	return err
}

// DeviceListCmd lists the devices of all hosts.
type DeviceListCmd struct {
	Host string `help:"Only devices of this host."`
	LongOutput
	State string `help:"Only devices in this state: ${enum}." enum:",available,claimed,allocated,unavailable,unclaimable,removed" default:""`
}

// Run prints the devices: those that the agents report, or where compute is Nova those of Placement's providers.
func (c *DeviceListCmd) Run(g *Globals) error {
	ctx, cancel := fleetContext(g)
	defer cancel()
	if besideNova(ctx, g) {
		return listNovaDevices(ctx, g, c.Host, c.State, c.Long)
	}
	if c.Host != "" {
		if _, err := g.report(ctx, c.Host); err != nil {
			return err
		}
	}
	all, err := g.hosts().Devices(ctx)
	if err != nil {
		return err
	}
	products := deviceNames()
	list, holders := []host.Device{}, []string{}
	for _, d := range all {
		if (c.Host != "" && c.Host != d.Host) || (c.State != "" && c.State != d.State) {
			continue
		}
		list, holders = append(list, d), append(holders, d.Holder)
	}
	var known names
	if !c.Long && g.Output != "json" {
		known = g.consumerNames(ctx, holders)
	}
	return printList(g, list, "Host", c.Long, []column[host.Device]{
		{name: "Host", text: func(d host.Device) string { return d.Host }},
		{name: "Address", text: func(d host.Device) string { return d.Address }},
		{name: "ID", text: idText},
		{name: "Name", text: func(d host.Device) string { return dash(products(d.VendorID, d.ProductID)) }},
		{name: "Type", text: func(d host.Device) string { return d.Type }},
		{name: "Class", text: func(d host.Device) string { return d.ResourceClass }},
		{name: "NUMA", text: func(d host.Device) string { return numaText(d.NUMANode) }},
		{name: "State", text: stateText},
		{name: "Holder", text: func(d host.Device) string { return dash(holderText(d, known.of(d.Holder))) }},
		{name: "Disabled", text: func(d host.Device) string { return dash(disabledText(d)) }},
	})
}

// holderText returns the holder of a device, whose name is given; and of a consumer that compute has not placed on the
// host, since when it is known.
func holderText(d host.Device, name string) string {
	switch {
	case d.UnknownSince.IsZero():
		return name
	case name == d.Holder:
		name = "unknown consumer " + name
	default:
		name += ", not placed here"
	}
	return name + ", since " + localTime(d.UnknownSince)
}

// idText returns the vendor and product id of a device; "-" for one that the host does not have now.
func idText(d host.Device) string {
	if d.VendorID+d.ProductID == "" {
		return "-"
	}
	return d.VendorID + ":" + d.ProductID
}

// stateText returns a device's state, in which way a card is used, whether the host does not offer it now, whether it
// is disabled, and whether it is spent.
func stateText(d host.Device) string {
	d.State += shapeText(d)
	if d.Gone() && d.State != string(pci.Removed) {
		d.State += ", not present"
	}
	if d.Disabled {
		d.State += ", disabled"
	}
	switch {
	case !d.Spent:
		return d.State
	case d.Refused != "":
		return d.State + ", spent, not cleaned"
	case !d.Wanted.IsZero():
		return d.State + ", spent, to be cleaned"
	}
	return d.State + ", spent"
}

// DeviceShowCmd shows one device.
type DeviceShowCmd struct {
	Host    string `arg:"" help:"Host that has the device."`
	Address string `arg:"" help:"Address of the device, such as 0000:17:00.0."`
}

// Validate names the host as the missing argument if the only argument is an address; the parser would name the
// address.
func (c *DeviceShowCmd) Validate() error { return needsHost("show", c.Host, c.Address) }

// Run prints the device.
func (c *DeviceShowCmd) Run(g *Globals) error {
	ctx, cancel := fleetContext(g)
	defer cancel()
	if besideNova(ctx, g) {
		return showNovaDevice(ctx, g, c.Host, c.Address)
	}
	if err := provider.CheckHostName(c.Host); err != nil {
		return err
	}
	d, err := g.hosts().Device(ctx, c.Host, c.Address)
	if err != nil {
		return err
	}
	var holder, providers names
	if g.Output != "json" {
		holder = g.consumerNames(ctx, []string{d.Holder})
		providers = g.deviceProviders(ctx, d)
	}
	return g.print(d, []string{"Field", "Value"}, pairs("host", d.Host, "address", d.Address, "id",
		idText(d),
		"name", dash(deviceNames()(d.VendorID, d.ProductID)), "type", d.Type, "parent", dash(d.Parent), "numa_node",
		numaText(d.NUMANode),
		"driver", dash(d.Driver), "class", dash(d.ResourceClass), "traits", dash(strings.Join(d.Traits, ", ")), "provider",
		dash(providers.both(d.Provider)), "bandwidth provider", dash(providers.both(d.Bandwidth)),
		"state", stateText(d), "holder", dash(holderText(d, holder.both(d.Holder))), "one_time_use", yes(d.OneTimeUse),
		"spent", yes(d.Spent), "present", yes(!d.Gone()),
		"cleaning requested", localTime(d.Wanted), "cleaning refused", dash(d.Refused), "disabled", dash(disabledText(d))))
}

// deviceProviders returns the names of the providers of a device and of the bandwidth of its NIC.
func (g *Globals) deviceProviders(ctx context.Context, d host.Device) names {
	all := names{}
	for _, id := range []string{d.Provider, d.Bandwidth} {
		if id != "" {
			maps.Copy(all, g.providerNames(ctx, url.Values{"uuid": {id}}))
		}
	}
	return all
}

// shapeText returns in which way a card is used, or can be, that is offered as its PF and as its VFs; empty for any
// other device.
func shapeText(d host.Device) string {
	switch {
	case d.Slices == 0:
		return ""
	case d.Holder != "":
		return ", as PF"
	case d.State == string(pci.Available):
		return ", as PF or as VFs"
	}
	return ", as VFs"
}

func numaText(node int) string {
	if node < 0 {
		return "-"
	}
	return strconv.Itoa(node)
}

// deviceNames returns a function that looks names up in the machine's pci.ids; without that file it returns "".
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

// needsHost returns an error if a device command has an address in the place of the host and no other argument.
func needsHost(command, hostName, address string) error {
	if _, err := pci.ParseAddress(hostName); err != nil || address != "" {
		return nil
	}
	return fmt.Errorf("the host of %s is missing; use `berth device %s HOST %s`, or see `berth device list`",
		hostName, command, hostName)
}
