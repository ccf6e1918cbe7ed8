package resources

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// listHosts handles GET /berth/v1/hosts: what each host has, by name.
func listHosts(c *request.Call) error {
	return sendTrees(c, "hosts", func(t hostTree) []any {
		if row, ok := hosttree.HostOf(t.providers); ok {
			return []any{row}
		}
		return nil
	})
}

// listDevices handles GET /berth/v1/devices: the devices of all hosts with their holders, by host and address.
func listDevices(c *request.Call) error {
	return sendTrees(c, "devices", func(t hostTree) (rows []any) {
		for _, d := range t.devices() {
			rows = append(rows, d)
		}
		return rows
	})
}

// showHost handles GET /berth/v1/hosts/{host}: one host with its devices.
func showHost(c *request.Call) error {
	tree, err := namedTree(c)
	if err != nil {
		return err
	}
	row, ok := hosttree.HostOf(tree.providers)
	if !ok {
		return noHost(c.R.PathValue("host"))
	}
	return c.SendJSON(200, api.Host{HostRow: row, Devices: tree.devices()})
}

// showDevice handles GET /berth/v1/hosts/{host}/devices/{address}: the resource classes of one device of a host.
func showDevice(c *request.Call) error {
	tree, err := namedTree(c)
	if err != nil {
		return err
	}
	address := c.R.PathValue("address")
	found := slices.DeleteFunc(tree.devices(), func(d hosttree.Device) bool {
		return !strings.EqualFold(d.Address, address)
	})
	if len(found) == 0 {
		return fault.New(fault.NotFound, "Host %s has no device %s in Placement; GET /berth/v1/hosts/{host} lists all",
			c.R.PathValue("host"), address)
	}
	return c.SendJSON(200, api.Devices{Devices: found})
}

func noHost(name string) error {
	return fault.New(fault.NotFound,
		"No host %s found: no root provider that does not share its inventory has this name",
		name)
}

// hostTree is a tree of providers with what consumers hold of them.
type hostTree struct {
	providers []*hosttree.Provider
	owners    map[resource.ConsumerID]hosttree.Owner
}

// devices returns the devices of the host with the owners of their holders, by address and class.
func (t hostTree) devices() []hosttree.Device {
	list := []hosttree.Device{}
	host := ""
	for _, p := range t.providers {
		if p.Parent == "" {
			host = p.Name
		}
		list = append(list, hosttree.Devices(p, host)...) // parents come first
	}
	for _, d := range list {
		for i := range d.Holders {
			d.Holders[i].Owner = t.owners[d.Holders[i].Consumer]
		}
	}
	hosttree.SortDevices(list)
	return list
}

// namedTree returns the tree of the host in the path; fault.NotFound if no root provider has the name.
func namedTree(c *request.Call) (hostTree, error) {
	name := c.R.PathValue("host")
	if err := noParameters(c); err != nil {
		return hostTree{}, err
	}
	snapshot, err := c.Service.Index.CatchUp(c.Context())
	if err != nil {
		return hostTree{}, err
	}
	list, err := c.Service.Store.Providers(c.Context(), store.Filter{Name: name})
	if err != nil {
		return hostTree{}, err
	}
	if len(list) == 0 || list[0].Parent != "" {
		return hostTree{}, noHost(name)
	}
	trees, err := treesOf(c, snapshot, list[0].ID)
	if err != nil {
		return hostTree{}, err
	}
	c.SetModified(time.Time{})
	return trees[0], nil
}

// treesOf returns trees with what consumers hold of them. A tree that does not exist is empty.
func treesOf(c *request.Call, snapshot *index.Snapshot, roots ...provider.ID) ([]hostTree, error) {
	shares, err := c.Service.Store.Shares(c.Context(), roots...)
	if err != nil {
		return nil, err
	}
	held := map[provider.ID]map[resource.ConsumerID]resource.Amounts{}
	owners := map[resource.ConsumerID]hosttree.Owner{}
	for _, s := range shares {
		if held[s.Provider] == nil {
			held[s.Provider] = map[resource.ConsumerID]resource.Amounts{}
		}
		held[s.Provider][s.Consumer] = s.Amounts
		owners[s.Consumer] = hosttree.Owner{Type: s.ConsumerType, Project: s.Project, User: s.User}
	}
	trees := make([]hostTree, len(roots))
	for i, root := range roots {
		trees[i].owners = owners
		for _, row := range snapshot.Tree(root) {
			trees[i].providers = append(trees[i].providers, &hosttree.Provider{Provider: row.Provider,
				Held: held[row.ID]})
		}
	}
	return trees, nil
}

// treesAtOnce is of how many trees the allocations are read at once.
const treesAtOnce = 200

// sendTrees answers with a list of the rows of all trees, by the name of the root. Only the trees of one part are in
// memory, and nothing is locked while the client reads. So each tree is as it was at one time, of which there are
// several in a long list.
func sendTrees(c *request.Call, name string, rows func(hostTree) []any) error {
	if err := noParameters(c); err != nil {
		return err
	}
	snapshot, err := c.Service.Index.CatchUp(c.Context())
	if err != nil {
		return err
	}
	c.SetModified(time.Time{})
	return c.SendItems(name, rowsOf(c, rootsByName(snapshot), rows))
}

// rowsOf returns the rows of trees, part by part.
func rowsOf(c *request.Call, roots []provider.ID, rows func(hostTree) []any) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for part := range slices.Chunk(roots, treesAtOnce) {
			trees, err := treesOf(c, c.Service.Index.Snapshot(), part...)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, tree := range trees {
				for _, row := range rows(tree) {
					if !yield(row, nil) {
						return
					}
				}
			}
		}
	}
}

// rootsByName returns the roots of all trees, by name.
func rootsByName(snapshot *index.Snapshot) []provider.ID {
	trees := slices.SortedFunc(snapshot.Trees(), func(a, b *index.Tree) int {
		return cmp.Or(cmp.Compare(a.Nodes[0].Name, b.Nodes[0].Name), cmp.Compare(a.Root, b.Root))
	})
	roots := make([]provider.ID, len(trees))
	for i, t := range trees {
		roots[i] = t.Root
	}
	return roots
}

// noParameters returns fault.Invalid if the query has a parameter.
func noParameters(c *request.Call) error {
	q, err := c.Query()
	if err != nil {
		return err
	}
	for key := range q {
		return fault.New(fault.Invalid, "Invalid query string parameters: there is no parameter %q; this list has none",
			key)
	}
	return nil
}
