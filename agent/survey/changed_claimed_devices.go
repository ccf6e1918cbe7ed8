package survey

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

// changedClaim is a claim whose device is not on the host as it was claimed.
type changedClaim struct {
	claim     device.Claim
	now       *pci.Device // the device at its address now; nil: none, or an unreadable one
	relatives []string    // addresses of other offered devices that are withheld
}

// changedClaims lists the claims whose devices have changed their ids or type, or are gone.
func (f Facts) changedClaims() []changedClaim {
	var list []changedClaim
	if len(f.Held) == 0 {
		return nil
	}
	there := f.byAddress()
	for _, c := range f.Held {
		now, exists := there[c.Device.Address]
		switch {
		case c.Device.Type == "": // only its address is known
		case !exists:
			list = append(list, changedClaim{claim: c})
		case c.Changed(*now):
			list = append(list, changedClaim{claim: c, now: now})
		}
	}
	return list
}

// byAddress returns the devices of the host by address.
func (f Facts) byAddress() map[pci.Address]*pci.Device {
	there := make(map[pci.Address]*pci.Device, len(f.Devices))
	for i := range f.Devices {
		there[f.Devices[i].Address] = &f.Devices[i]
	}
	return there
}

// withhold removes from the offered devices those that are part of a device that a guest holds under another identity,
// as after a change of cards or firmware: the device now at the claim's address, its PF, and its VFs, as claimed and
// as they are. It refuses nothing, because the hardware cannot be refused. The claim stays in the tree as it was made,
// and the present device is offered when its holder frees it. The notes name each such device, what it was and is, the
// holder, and what to do.
func (f Facts) withhold(found []match) (offered []match, notes []Note) {
	strays := f.changedClaims()
	if len(strays) == 0 {
		return found, nil
	}
	reason := map[pci.Address]int{} // by the address of a withheld device
	there := f.byAddress()
	for i, s := range strays {
		own := s.claim.Device
		if s.now != nil {
			reason[own.Address] = i
			if s.now.Parent != nil {
				reason[*s.now.Parent] = i
			}
		}
		if own.Parent != nil && there[*own.Parent] != nil && there[*own.Parent].Parent == nil {
			reason[*own.Parent] = i
		}
		for _, d := range f.Devices {
			if d.Parent != nil && *d.Parent == own.Address {
				reason[d.Address] = i
			}
		}
	}
	for _, m := range found {
		at := m.offer.Device.Address
		i, withheld := reason[at]
		if !withheld {
			offered = append(offered, m)
		} else if s := &strays[i]; at != s.claim.Device.Address {
			s.relatives = append(s.relatives, at.String())
		}
	}
	for _, s := range strays {
		if s.now != nil || len(s.relatives) > 0 {
			notes = append(notes, f.note(s))
		}
	}
	return offered, notes
}

// note returns the note on a device that has changed, or that is gone and keeps others from being offered.
func (f Facts) note(s changedClaim) Note {
	c, keeps := s.claim, ""
	if f.Report && c.Provider != "" {
		keeps = fmt.Sprintf(" (%s keeps %s)", f.nameOf(c), c.ResourceClass)
	}
	also := ""
	if len(s.relatives) > 0 {
		also = fmt.Sprintf(", nor are its relatives %s", joinFew(s.relatives))
	}
	if s.now == nil {
		return Note{c.Device.Address.String(), fmt.Sprintf("is held by server %s as %s, though %s: the server keeps "+
			"it%s, and no other server is offered its relatives %s; put the device back, or delete or migrate the "+
			"server", c.Holder, device.Identity(c.Device), f.missing(c), keeps, joinFew(s.relatives))}
	}
	was, is := c.Difference(*s.now)
	return Note{c.Device.Address.String(), fmt.Sprintf("is %s now, but server %s holds it as %s: the server keeps it "+
		"as it was claimed%s, and no other server is offered it%s; put the old device back, or delete or migrate the "+
		"server: then it is offered as what it is now", is, c.Holder, was, keeps, also)}
}

// missing returns, as a clause, why a held device is no longer offered.
func (f Facts) missing(c device.Claim) string {
	if f.Unreadable[c.ID()] {
		return "the host cannot read it now"
	}
	if f.byAddress()[c.Device.Address] == nil {
		return "it is no longer on the host"
	}
	if o, is := f.obstacles()[c.Device.Address]; is && f.VFIO {
		return "it " + o.why()
	}
	return "device_spec no longer offers it to aliases"
}

// changed reports whether another device is at the address of a claim.
func (f Facts) changed(c device.Claim) bool {
	now := f.byAddress()[c.Device.Address]
	return now != nil && c.Changed(*now)
}

// nameOf returns the name of the provider that counts a held device.
func (f Facts) nameOf(c device.Claim) string {
	if p, there := f.Actual.ByID(c.Provider); there && c.Provider != "" {
		return p.Name
	}
	if c.Name != "" {
		return c.Name
	}
	return c.Device.Holder().ProviderName(f.Host)
}

// joinFew joins texts: the first four, and the number of further ones.
func joinFew(words []string) string {
	const most = 4
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}
