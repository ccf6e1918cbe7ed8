package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

// Card is a device with its VFs, or a device of Placement that no agent reports.
type Card struct {
	Address string
	Name    string // vendor and product, or what its provider has
	Class   string // with the units that are held
	Traits  string
	Bands   []BandBar // guaranteed bandwidth of the NIC
	Items   []CardItem
	Bad     bool // one of its devices has a holder that compute does not know
}

// CardItem is a device of a card with its holder, or those that have none.
type CardItem struct {
	Cell
	Name    string // address, or the number of devices
	Server  string // id of the server that holds it; empty: it has no holder that compute knows
	Holder  string // the name of the holder
	Note    string
	Numbers []string // addresses of several devices
}

// trees returns the PCIe trees of a host by NUMA node: the ports above its cards, and the cards.
func (c *Cloud) trees(h *Host) map[int][]*Branch {
	cards, order := map[string][]host.Device{}, []string{}
	for _, d := range h.Report.Devices {
		at := cmp.Or(d.Parent, d.Address)
		if cards[at] == nil {
			order = append(order, at)
		}
		cards[at] = append(cards[at], d)
	}
	slices.Sort(order)
	trees := map[int][]*Branch{}
	for _, at := range order {
		first := cards[at][0]
		list := trees[first.NUMANode]
		below := &list
		for _, bridge := range first.Bridges {
			below = &branch(below, bridge).Below
		}
		*below = append(*below, &Branch{Address: at, Card: c.card(h, at, cards[at])})
		trees[first.NUMANode] = list
	}
	return trees
}

// branch returns the port with an address among branches, which it adds if there is none.
func branch(list *[]*Branch, address string) *Branch {
	for _, b := range *list {
		if b.Address == address && b.Card == nil {
			return b
		}
	}
	b := &Branch{Address: address}
	*list = append(*list, b)
	return b
}

// card returns the card at an address with these devices.
func (c *Cloud) card(h *Host, at string, devices []host.Device) *Card {
	card := &Card{Address: at, Name: devices[0].VendorID + ":" + devices[0].ProductID}
	if n := devices[0].PhysicalNetwork; n != nil && *n != "" {
		card.Name += ", " + *n
	}
	card.Traits = strings.Join(devices[0].Traits, ", ")
	card.Bands = c.bandsOfNIC(devices)
	used := map[string]Amount{}
	rest := map[string][]host.Device{} // without holder, by state
	for _, d := range devices {
		a := used[d.ResourceClass]
		a.Of++
		if d.Holder != "" {
			a.Used++
			item := c.heldItem(d)
			card.Bad = card.Bad || !d.UnknownSince.IsZero()
			card.Items = append(card.Items, item)
		} else {
			state := string(unitState(d, h))
			rest[state] = append(rest[state], d)
		}
		used[d.ResourceClass] = a
	}
	var classes []string
	for class, a := range used {
		classes = append(classes, class+" "+a.Text())
	}
	slices.Sort(classes)
	card.Class = strings.Join(classes, ", ")
	for _, state := range []rune{spent, off, free} {
		if list := rest[string(state)]; len(list) > 0 {
			card.Items = append(card.Items, restItem(list, state))
		}
	}
	return card
}

// unitState returns the state of a device without a holder.
func unitState(d host.Device, h *Host) rune {
	switch {
	case d.Spent:
		return spent
	case d.Disabled, !h.Offers():
		return off
	}
	return free
}

// heldItem returns the item of a device with a holder.
func (c *Cloud) heldItem(d host.Device) CardItem {
	item := CardItem{Name: d.Address, Cell: Cell{Class: resource.Class(d.ResourceClass), Address: d.Address,
		Counts: Counts{Held: 1, Of: 1}}}
	if d.Gone() {
		item.Counts = Counts{Gone: 1, Of: 1}
		item.Note = "gone: the host does not offer it now"
	}
	item.Pattern = item.pattern()
	holder := c.Fleet.Holder(resource.ConsumerID(d.Holder), 1)
	item.Holders = append(item.Holders, holder)
	item.Holder = holder.String()
	if c.Fleet.Server[holder.Consumer] != nil {
		item.Server = d.Holder
	}
	if !d.UnknownSince.IsZero() {
		item.Note = "compute has not placed this holder on the host"
	}
	item.Label = fmt.Sprintf("%s %s: %s by %s", d.ResourceClass, d.Address, strings.TrimPrefix(item.Text(), "1 "),
		item.Holder)
	return item
}

// restItem returns the item of devices without a holder.
func restItem(list []host.Device, state rune) CardItem {
	counts := Counts{Of: len(list)}
	switch state {
	case spent:
		counts.Spent = len(list)
	case off:
		counts.Off = len(list)
	default:
		counts.Free = len(list)
	}
	item := CardItem{Name: counts.Text(), Cell: Cell{Counts: counts, Pattern: counts.pattern()}}
	for _, d := range list {
		item.Numbers = append(item.Numbers, d.Address)
	}
	item.Label = fmt.Sprintf("%s %s: %s", list[0].ResourceClass, item.Numbers[0], counts.Text())
	if n := len(item.Numbers); n > 1 {
		item.Label = fmt.Sprintf("%s %s to %s: %s", list[0].ResourceClass, item.Numbers[0], item.Numbers[n-1], counts.Text())
	}
	return item
}

// placementCards returns the devices of a host as Placement has them, for a host whose agent reports none.
func (h *Host) placementCards(c *Cloud) (list []*Card) {
	for _, cell := range h.Cells {
		card := &Card{Address: cell.Address,
			Class: string(cell.Class) + " " + Amount{cell.AllHeld(), cell.Of}.Text()}
		if p := c.bandwidthAbove(c.Fleet.Provider[cell.provider]); p != nil {
			card.Bands = c.bandBars(p)
		}
		for _, holder := range cell.Holders {
			item := CardItem{Cell: Cell{Pattern: "d-h", Label: cell.Label, Holders: cell.Holders[:1]},
				Name: Number(holder.Amount), Holder: holder.String()}
			if c.Fleet.Server[holder.Consumer] != nil {
				item.Server = string(holder.Consumer)
			}
			card.Items = append(card.Items, item)
		}
		rest := cell.Counts
		rest.Gone, rest.Held, rest.Of = 0, 0, rest.Of-rest.AllHeld()
		if rest.Of > 0 {
			card.Items = append(card.Items, CardItem{Name: rest.Text(), Cell: Cell{Counts: rest, Pattern: rest.pattern(),
				Label: string(cell.Class) + " " + cell.Address + ": " + rest.Text()}})
		}
		list = append(list, card)
	}
	return list
}
