package request

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/policies"
)

// Document is an object of a collection: what the API shows, and what the policy rules refer to.
type Document struct {
	View   map[string]any
	Target map[string]any
}

// Collection is a resource of the API. A function that is nil makes its methods not allowed.
type Collection struct {
	One, Many  string   // network, networks: the keys of bodies
	rule       string   // the name in policy rules; empty: one
	Missing    string   // the code of the fault for an object that the caller may not see: NetworkNotFound
	Attributes []string // that lists can be filtered and sorted by
	Hidden     []string // those of them that are not shown

	List   func(c *Call, q url.Values) ([]Document, error)
	Show   func(c *Call, id string) (Document, error)
	Draft  func(c *Call, o *edge.Object) (target map[string]any, err error) // of an object to create, for the policy
	Create func(c *Call, o *edge.Object) (Document, error)
	Update func(c *Call, id string, revision int, o *edge.Object) (Document, error)
	Remove func(c *Call, id string, revision int) error
	// Check refuses a create or an update after the policy; nil: nothing.
	Check func(c *Call, rule string, o *edge.Object, target map[string]any) error
}

// Named returns the collection with its name in the policy rules.
func (col Collection) Named() Collection {
	if col.rule == "" {
		col.rule = col.One
	}
	return col
}

// Mount adds the paths of a collection.
func Mount(all *[]edge.Route[*Call], path string, col Collection) {
	col = col.Named()
	many, one := edge.Route[*Call]{Path: path, Methods: Methods{}},
		edge.Route[*Call]{Path: path + "/{id}", Methods: Methods{}}
	if col.List != nil {
		many.Methods[http.MethodGet] = method{Handle: col.handleList}
	}
	if col.Create != nil {
		many.Methods[http.MethodPost] = method{Handle: col.handleCreate}
	}
	if col.Show != nil {
		one.Methods[http.MethodGet] = method{Handle: col.handleShow}
	}
	if col.Update != nil {
		one.Methods[http.MethodPut] = method{Handle: col.handleUpdate}
	}
	if col.Remove != nil {
		one.Methods[http.MethodDelete] = method{Handle: col.handleRemove}
	}
	if len(many.Methods) > 0 {
		*all = append(*all, many)
	}
	if len(one.Methods) > 0 {
		*all = append(*all, one)
	}
}

// visible returns the view of a document without the attributes that the policy hides. ok is false if it hides all.
func (col Collection) visible(c *Call, d Document) (view map[string]any, ok bool) {
	if !c.Permits("get_"+col.rule, d.Target) {
		return nil, false
	}
	for name := range d.View {
		if rule := "get_" + col.rule + ":" + name; policies.Has(rule) && !c.Permits(rule, d.Target) {
			delete(d.View, name)
		}
	}
	return d.View, true
}

// Read returns a document that the caller may see; for another one it returns fault.NotFound.
func (col Collection) Read(c *Call, id string) (Document, error) {
	d, err := col.Show(c, id)
	if err == nil {
		err = col.CheckVisible(c, d, id)
	}
	return d, err
}

// CheckVisible returns fault.NotFound for a document that the caller may not see.
func (col Collection) CheckVisible(c *Call, d Document, id string) error {
	if c.Permits("get_"+col.rule, d.Target) {
		return nil
	}
	return fault.New(fault.NotFound, "%s %s could not be found.", strings.TrimSuffix(col.Missing, "NotFound"), id).
		WithCode(col.Missing)
}

func (col Collection) handleShow(c *Call) error {
	d, err := col.Read(c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	return col.write(c, http.StatusOK, d)
}

// write writes a document.
func (col Collection) write(c *Call, status int, d Document) error {
	view, _ := col.visible(c, d)
	return c.WriteJSON(status, map[string]any{col.One: col.shown(view, c.R.URL.Query()["fields"])})
}

func (col Collection) handleList(c *Call) error {
	q := c.R.URL.Query()
	if err := col.checkQuery(q); err != nil {
		return err
	}
	found, err := col.List(c, q)
	if err != nil {
		return err
	}
	var views []map[string]any
	for _, d := range found {
		if view, ok := col.visible(c, d); ok && Matches(view, q) {
			views = append(views, view)
		}
	}
	order(views, q)
	part, before, after, err := page(views, q)
	if err != nil {
		return err
	}
	body := map[string]any{}
	if links := c.links(part, before, after); len(links) > 0 {
		body[col.Many+"_links"] = links
	}
	list := make([]map[string]any, 0, len(part))
	for _, view := range part {
		list = append(list, col.shown(view, q["fields"]))
	}
	body[col.Many] = list
	return c.WriteJSON(http.StatusOK, body)
}

// links returns the links of a page to the pages beside it, if the request has a limit.
func (c *Call) links(part []map[string]any, before, after bool) (links []map[string]string) {
	q := c.R.URL.Query()
	if q.Get("limit") == "" || q.Get("limit") == "0" || len(part) == 0 {
		return nil
	}
	link := func(rel string, marker any, reverse bool) {
		q.Del("page_reverse")
		q.Set("marker", edge.TextOf(marker))
		if reverse {
			q.Set("page_reverse", "True")
		}
		links = append(links, map[string]string{"rel": rel, "href": c.BaseURL() + c.R.URL.Path + "?" + q.Encode()})
	}
	if after {
		link("next", part[len(part)-1]["id"], false)
	}
	if before {
		link("previous", part[0]["id"], true)
	}
	return links
}

// MaxBulk is how many objects one request may create. They are created in one transaction.
const MaxBulk = 1000

// objects reads a body with one object, or with a list of them under the key col.many, such as {"networks": [{…}]}.
// bulk reports whether it is a list.
func (col Collection) objects(c *Call) (list []*edge.Object, bulk bool, err error) {
	var outer map[string]json.RawMessage
	if err := c.ReadJSON(MaxBody, &outer); err != nil {
		return nil, false, err
	}
	all := make([]map[string]json.RawMessage, 1)
	if bulk = outer[col.Many] != nil && outer[col.One] == nil; bulk {
		err = json.Unmarshal(outer[col.Many], &all)
	} else if outer[col.One] != nil {
		err = json.Unmarshal(outer[col.One], &all[0])
	}
	if err == nil && len(all) > MaxBulk {
		return nil, true, fault.New(fault.Invalid, "'%s' has %d elements; a request can create at most %d", col.Many,
			len(all), MaxBulk)
	}
	for _, keys := range all {
		list = append(list, c.NewObject(col.One, keys))
	}
	if err != nil || len(all) == 0 ||
		slices.ContainsFunc(all, func(keys map[string]json.RawMessage) bool { return keys == nil }) {
		return nil, bulk, c.NoObject(col.One)
	}
	return list, bulk, nil
}

// handleCreate creates one object or, with a list, all of them or none.
func (col Collection) handleCreate(c *Call) error {
	objects, bulk, err := col.objects(c)
	if err != nil {
		return err
	}
	if !bulk {
		d, err := col.createOne(c, objects[0])
		if err != nil {
			return err
		}
		return col.write(c, http.StatusCreated, d)
	}
	var views []map[string]any
	request := c.R
	err = c.Service.Ops.Store.Together(request.Context(), func(ctx context.Context) error {
		c.R, views = request.WithContext(ctx), nil
		for _, o := range objects {
			d, err := col.createOne(c, o.Copy())
			if err != nil {
				return err
			}
			view, _ := col.visible(c, d)
			views = append(views, col.shown(view, request.URL.Query()["fields"]))
		}
		return nil
	})
	c.R = request
	if err == nil {
		rest.WriteJSON(c.W, http.StatusCreated, map[string]any{col.Many: views})
	}
	return err
}

// createOne creates an object if the policy allows it.
func (col Collection) createOne(c *Call, o *edge.Object) (Document, error) {
	target, err := col.Draft(c, o)
	if err != nil {
		return Document{}, err
	}
	if err := col.authorize(c, "create_"+col.rule, o, target); err != nil {
		return Document{}, err
	}
	return col.Create(c, o)
}

// authorize checks the rule of an operation, that of each attribute that the request has, and what the resource checks.
func (col Collection) authorize(c *Call, rule string, o *edge.Object, target map[string]any) error {
	if err := c.Authorize(rule, target); err != nil {
		return err
	}
	for name := range o.Keys {
		if attribute := rule + ":" + name; policies.Has(attribute) {
			if err := c.Authorize(attribute, target); err != nil {
				return err
			}
		}
	}
	if col.Check == nil {
		return nil
	}
	return col.Check(c, rule, o, target)
}

func (col Collection) handleUpdate(c *Call) error {
	id := c.R.PathValue("id")
	o, _, err := c.Object(col.One)
	if err != nil {
		return err
	}
	revision, err := c.revision()
	if err != nil {
		return err
	}
	d, err := col.Read(c, id)
	if err != nil {
		return err
	}
	target := d.Target
	if owner := ""; o.Copy().Text("device_owner", &owner, 255) {
		target = c.Target(edge.TextOf(target["project_id"]), target)
		target["owner_kind"] = OwnerKind(owner)
	}
	if err := col.authorize(c, "update_"+col.rule, o, target); err != nil {
		return err
	}
	if d, err = col.Update(c, id, revision, o); err != nil {
		return err
	}
	return col.write(c, http.StatusOK, d)
}

// OwnerKind returns the part of a device_owner before the colon.
func OwnerKind(owner string) string { kind, _, _ := strings.Cut(owner, ":"); return kind }

func (col Collection) handleRemove(c *Call) error {
	id := c.R.PathValue("id")
	d, err := col.Read(c, id)
	if err != nil {
		return err
	}
	if err := c.Authorize("delete_"+col.rule, d.Target); err != nil {
		return err
	}
	revision, err := c.revision()
	if err != nil {
		return err
	}
	return c.Done(http.StatusNoContent, col.Remove(c, id, revision))
}

// Project returns the project of an object to create: that of the request, or that of the caller. Only administrators
// and services create objects of other projects, as in Neutron, whatever the rules say: quotas are those of the
// project. A caller without a project has no objects.
func (c *Call) Project(o *edge.Object) (string, error) {
	project := ""
	for _, key := range []string{"project_id", "tenant_id"} {
		other := ""
		if o.Text(key, &other, 255); other == "" {
			continue
		}
		if project != "" && project != other {
			return "", fault.New(fault.Invalid, "project_id and tenant_id differ; send one of them")
		}
		project = other
	}
	switch mayAny := c.Who.IsAdmin() || c.Who.Has("service"); {
	case !mayAny && c.Who.Project == "":
		return "", fault.New(fault.Forbidden, "the token is not one of a project; use one that is")
	case !mayAny && project != "" && project != c.Who.Project:
		return "", fault.New(fault.Invalid, "Specifying 'project_id' or 'tenant_id' other than the authenticated "+
			"project in request requires admin or service privileges")
	case project == "":
		project = c.Who.Project
	}
	return project, o.Err()
}
