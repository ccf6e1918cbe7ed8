package resources

import (
	"maps"
	"net/url"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

// pools has the handlers of subnet pools.
type pools struct{ handlers }

func (s pools) operations() operations.SubnetPools { return operations.SubnetPools{Service: s.Ops} }

// collection returns the collection of subnet pools.
func (s pools) collection() request.Collection {
	return request.Collection{One: "subnetpool", Many: "subnetpools", Missing: "SubnetPoolNotFound",
		Attributes: request.With("shared", "is_default", "ip_version", "default_prefixlen", "min_prefixlen",
			"max_prefixlen",
			"default_quota", "address_scope_id"),
		List: func(c *request.Call, q url.Values) ([]request.Document, error) {
			found, err := operations.List[store.SubnetPool](c.R.Context(), s.Ops, request.StoreFilter(q))
			var list []request.Document
			for _, p := range found {
				list = append(list, poolDocument(c, p))
			}
			return list, err
		},
		Show: func(c *request.Call, id string) (request.Document, error) {
			p, err := operations.Get[store.SubnetPool](c.R.Context(), s.Ops, id)
			return poolDocument(c, p), err
		},
		Draft: request.DraftProject,
		Create: func(c *request.Call, o *edge.Object) (request.Document, error) {
			p := store.SubnetPool{}
			p.Project, _ = c.Project(o)
			o.Require("prefixes")
			o.Flag("shared", &p.Shared)
			readPool(o, &p)
			if err := o.Finish(); err != nil {
				return request.Document{}, err
			}
			p, err := s.operations().Create(c.R.Context(), p)
			if err != nil {
				return request.Document{}, err
			}
			return poolDocument(c, p), c.LoadShares()
		},
		Update: func(c *request.Call, id string, revision int, o *edge.Object) (request.Document, error) {
			p, err := s.operations().Update(c.R.Context(), id, revision, func(p *store.SubnetPool) error {
				o := o.Copy()
				readPool(o, p)
				return o.Finish()
			})
			return poolDocument(c, p), err
		},
		Remove: func(c *request.Call, id string, revision int) error {
			return s.operations().Delete(c.R.Context(), id, revision)
		}}
}

// readPool decodes the attributes of a subnet pool that creates and updates have in common.
func readPool(o *edge.Object, p *store.SubnetPool) {
	o.Text("name", &p.Name, 255)
	o.Text("description", &p.Description, 255)
	o.Flag("is_default", &p.IsDefault)
	o.Number("min_prefixlen", &p.MinLength, 1, 128)
	o.Number("max_prefixlen", &p.MaxLength, 1, 128)
	o.Number("default_prefixlen", &p.DefaultLength, 1, 128)
	if o.Has("prefixes") {
		p.Prefixes = nil
		o.Decode("prefixes", &p.Prefixes, "a list of networks")
	}
	if o.Has("default_quota") {
		limit, none := 0, edge.IsNull(o.Keys["default_quota"])
		if o.Number("default_quota", &limit, 0, request.MaxRate); none {
			p.Quota = nil
		} else {
			p.Quota = &limit
		}
	}
	if scope := ""; o.Text("address_scope_id", &scope, 255) && scope != "" {
		o.Invalid("address_scope_id",
			"Berth has no address scopes; leave it out, or use Neutron if the cloud needs them")
	}
}

// poolDocument returns the document of a subnet pool.
func poolDocument(c *request.Call, p store.SubnetPool) request.Document {
	shared := p.Shared || c.IsShared(p.ID)
	view := request.Common(p.Base)
	var quota any
	if p.Quota != nil {
		quota = *p.Quota
	}
	maps.Copy(view, map[string]any{"prefixes": request.NotNil(p.Prefixes), "ip_version": p.IPVersion, "shared": shared,
		"is_default": p.IsDefault, "min_prefixlen": p.MinLength, "max_prefixlen": p.MaxLength,
		"default_prefixlen": p.DefaultLength, "default_quota": quota, "address_scope_id": nil})
	return request.Document{View: view, Target: c.Target(p.Project, map[string]any{"shared": shared})}
}
