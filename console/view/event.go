package view

import (
	"strings"
	"time"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/resource"
)

// EventObject is the object of an event of Placement: a provider, an inventory or an allocation.
type EventObject struct {
	Name      string           `json:"name"`
	Root      string           `json:"root_provider_uuid"`
	Provider  string           `json:"provider"`
	Class     string           `json:"resource_class"`
	Total     int              `json:"total"`
	Reserved  int              `json:"reserved"`
	Used      int              `json:"used"`
	Traits    []string         `json:"traits"`
	Consumer  string           `json:"consumer"`
	Resources resource.Amounts `json:"resources"`
}

// EventRow is a row of the table of events.
type EventRow struct {
	Time    string `json:"time"` // of the day
	At      string `json:"at"`
	Kind    string `json:"kind"`
	Action  string `json:"action"`
	Subject string `json:"subject"` // the provider
	Link    string `json:"link"`    // what the subject belongs to; set by the server of the page
	Host    string `json:"-"`       // of the subject
	Server  string `json:"-"`       // id of the consumer, if it is a server
	What    string `json:"what"`
}

// Event returns the row of an event. c is nil for a user who may not read the cloud: then ids stay ids.
func (c *Cloud) Event(e eventstream.Event, o EventObject) EventRow {
	row := EventRow{At: e.Time.UTC().Format(time.RFC3339Nano), Time: e.Time.UTC().Format("15:04:05.000"), Kind: e.Kind,
		Action: e.Action}
	switch e.Kind {
	case "provider":
		row.Subject = o.Name
		row.Host = c.hostNamed(o.Root)
		row.What = strings.Join(o.Traits, ", ")
	case "inventory":
		row.Subject, row.Host = c.named(o.Provider).Text, c.hostAbove(o.Provider)
		row.What = o.Class + ": " + Number(o.Total) + " in all, " + Number(o.Reserved) + " reserved, " + Number(o.Used) +
			" used"
	case "allocation":
		row.Subject, row.Host = c.named(o.Provider).Text, c.hostAbove(o.Provider)
		holder := c.named(o.Consumer)
		row.Server = holder.Server
		row.What = holder.Text + ": " + o.Resources.String()
	}
	if e.Action == eventstream.Reset {
		row.What = "changes were missed: " + e.Reason
	}
	return row
}

// hostAbove returns the name of the host of a provider; empty if it is not known.
func (c *Cloud) hostAbove(id string) string {
	if c == nil {
		return ""
	}
	if p := c.Fleet.Provider[resource.ProviderID(id)]; p != nil {
		return c.hostNamed(string(p.Root))
	}
	return ""
}

// hostNamed returns the name of the host with a root provider; empty if it is not known.
func (c *Cloud) hostNamed(root string) string {
	if c == nil {
		return ""
	}
	if p := c.Fleet.Provider[resource.ProviderID(root)]; p != nil && c.byName[p.Name] != nil {
		return p.Name
	}
	return ""
}
