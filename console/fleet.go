package console

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/openberth/berth/console/view"
)

// fleetContent is the content of the fleet page.
type fleetContent struct {
	*view.Fleet
	cloud         *view.Cloud
	Groups, Sorts []string
}

// linkedCell is a cell with the address of what it shows.
type linkedCell struct {
	Cell view.Cell
	Href string
}

// Cell returns a cell of a host with its link.
func (f fleetContent) Cell(h *view.Host, c view.Cell) linkedCell { return cellOf(h.Host, c) }

// cellOf returns a cell of a host with its link.
func cellOf(host string, c view.Cell) linkedCell {
	return linkedCell{c, hostPath(host) + "#d-" + c.Address}
}

// Sentence divides a condition into text, commands and names.
func (f fleetContent) Sentence(text string) []view.Segment { return f.cloud.Sentence(text) }

// More returns how many conditions of a host its row does not show.
func (f fleetContent) More(h *view.Host) int { return len(h.Conditions) - 1 }

// fleet shows the hosts.
func (c *Console) fleet(w http.ResponseWriter, r *http.Request, one *session) error {
	cloud, stale, err := one.cloud(r)
	if err != nil {
		return err
	}
	f := fleetContent{one.tables.window(cloud, fleetQuery(r.URL.Query())), cloud, view.Groups, view.Sorts}
	p := one.page("Fleet", "fleet", cloud)
	p.Stale, p.Find, p.Content = stale, f.Find, f
	c.render(w, http.StatusOK, "fleet", p)
	return nil
}

// fleetRows returns a window of the table of hosts.
func (c *Console) fleetRows(w http.ResponseWriter, r *http.Request, one *session) error {
	cloud, _, err := one.cloud(r)
	if err != nil {
		return err
	}
	q := fleetQuery(r.URL.Query())
	q.Count = view.Part
	f := one.tables.window(cloud, q)
	c.render(w, http.StatusOK, "rows",
		page{Taken: cloud.Taken, Content: fleetContent{f, cloud, nil, nil}})
	return nil
}

// maxTables is how many tables a session keeps.
const maxTables = 8

// tables are the tables of hosts whose windows a session has read last. They are selected, sorted and summed once.
type tables struct {
	mu    sync.Mutex
	cloud *view.Cloud
	of    map[view.FleetQuery]*view.Fleet // of cloud
}

// window returns a window of a table.
func (t *tables) window(cloud *view.Cloud, q view.FleetQuery) *view.Fleet {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cloud != cloud || len(t.of) >= maxTables {
		t.cloud, t.of = cloud, map[view.FleetQuery]*view.Fleet{}
	}
	whole := q.Whole()
	if t.of[whole] == nil {
		t.of[whole] = cloud.WholeTable(whole)
	}
	return t.of[whole].Window(q)
}

// forget forgets all tables.
func (t *tables) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cloud, t.of = nil, nil
}

// fleetQuery reads the state of the fleet view from its address.
func fleetQuery(q url.Values) view.FleetQuery {
	from, _ := strconv.Atoi(q.Get("from")) // 0 if it is not a number
	f := view.FleetQuery{Find: q.Get("q"), Group: q.Get("group"), Sort: q.Get("sort"), State: view.Mark(q.Get("state")),
		From: from}
	if q.Has("all") {
		f.From, f.Count = 0, view.MaxRows
	}
	return f
}

// With returns the address of the fleet view with another value of one part of its state. The view begins at the first
// line again unless that is the part.
func (f fleetContent) With(part, value string) string {
	from := ""
	if f.From > 0 {
		from = strconv.Itoa(f.From)
	}
	now := map[string]string{"q": f.Find, "group": f.Group, "sort": f.Sort, "state": string(f.State), "from": from}
	if part != "" {
		now["from"] = ""
		now[part] = value
	}
	q := url.Values{}
	for name, value := range now {
		if value != "" && value != view.Groups[0] && value != view.Sorts[0] {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return "/fleet"
	}
	return "/fleet?" + q.Encode()
}

// AllRows returns the address of the page with all lines; empty: this page has them.
func (f fleetContent) AllRows() string {
	if len(f.Lines) == f.LineCount || f.Count == view.MaxRows {
		return ""
	}
	return f.With("all", "yes")
}

// Windows reports whether the script loads further lines of the table.
func (f fleetContent) Windows() bool { return f.Count < view.MaxRows }

// PartSize returns how many lines the script loads at once.
func (f fleetContent) PartSize() int { return view.Part }

// Line returns the address of the window that begins at a line.
func (f fleetContent) Line(n int) string { return f.With("from", strconv.Itoa(n)) }

// RowsQuery returns the query of the parts of the table, without the first line.
func (f fleetContent) RowsQuery() string {
	q := url.Values{"q": {f.Find}, "group": {f.Group}, "sort": {f.Sort}, "state": {string(f.State)}}
	return q.Encode()
}
