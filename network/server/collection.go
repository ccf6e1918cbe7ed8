package server

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

// document is an object of a collection: what the API shows, and what the policy rules refer to.
type document struct {
	view   map[string]any
	target map[string]any
}

// collection is a resource of the API. A function that is nil makes its methods not allowed.
type collection struct {
	one, many  string   // network, networks: the keys of bodies
	rule       string   // the name in policy rules; empty: one
	missing    string   // the code of the fault for an object that the caller may not see: NetworkNotFound
	attributes []string // that lists can be filtered and sorted by
	hidden     []string // those of them that are not shown

	list   func(c *call, q url.Values) ([]document, error)
	show   func(c *call, id string) (document, error)
	draft  func(c *call, o *edge.Object) (target map[string]any, err error) // of an object to create, for the policy
	create func(c *call, o *edge.Object) (document, error)
	update func(c *call, id string, revision int, o *edge.Object) (document, error)
	remove func(c *call, id string, revision int) error
	check  func(c *call, rule string, o *edge.Object, target map[string]any) error // of a create or an update; nil: none
}

// named returns the collection with its name in the policy rules.
func (col collection) named() collection {
	if col.rule == "" {
		col.rule = col.one
	}
	return col
}

// mount adds the paths of a collection.
func mount(all *[]edge.Route[*call], path string, col collection) {
	col = col.named()
	many, one := edge.Route[*call]{Path: path, Methods: methods{}},
		edge.Route[*call]{Path: path + "/{id}", Methods: methods{}}
	if col.list != nil {
		many.Methods[http.MethodGet] = method{Handle: col.handleList}
	}
	if col.create != nil {
		many.Methods[http.MethodPost] = method{Handle: col.handleCreate}
	}
	if col.show != nil {
		one.Methods[http.MethodGet] = method{Handle: col.handleShow}
	}
	if col.update != nil {
		one.Methods[http.MethodPut] = method{Handle: col.handleUpdate}
	}
	if col.remove != nil {
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
func (col collection) visible(c *call, d document) (view map[string]any, ok bool) {
	if !c.allowed("get_"+col.rule, d.target) {
		return nil, false
	}
	for name := range d.view {
		if rule := "get_" + col.rule + ":" + name; policies.Has(rule) && !c.allowed(rule, d.target) {
			delete(d.view, name)
		}
	}
	return d.view, true
}

// read returns a document that the caller may see; for another one it returns fault.NotFound.
func (col collection) read(c *call, id string) (document, error) {
	d, err := col.show(c, id)
	if err == nil {
		err = col.checkVisible(c, d, id)
	}
	return d, err
}

// checkVisible returns fault.NotFound for a document that the caller may not see.
func (col collection) checkVisible(c *call, d document, id string) error {
	if c.allowed("get_"+col.rule, d.target) {
		return nil
	}
	return fault.New(fault.NotFound, "%s %s could not be found.", strings.TrimSuffix(col.missing, "NotFound"), id).
		WithCode(col.missing)
}

func (col collection) handleShow(c *call) error {
	d, err := col.read(c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	return col.write(c, http.StatusOK, d)
}

// write writes a document.
func (col collection) write(c *call, status int, d document) error {
	view, _ := col.visible(c, d)
	return c.WriteJSON(status, map[string]any{col.one: col.shown(view, c.R.URL.Query()["fields"])})
}

func (col collection) handleList(c *call) error {
	q := c.R.URL.Query()
	if err := col.checkQuery(q); err != nil {
		return err
	}
	found, err := col.list(c, q)
	if err != nil {
		return err
	}
	var views []map[string]any
	for _, d := range found {
		if view, ok := col.visible(c, d); ok && matches(view, q) {
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
		body[col.many+"_links"] = links
	}
	list := make([]map[string]any, 0, len(part))
	for _, view := range part {
		list = append(list, col.shown(view, q["fields"]))
	}
	body[col.many] = list
	return c.WriteJSON(http.StatusOK, body)
}

// links returns the links of a page to the pages beside it, if the request has a limit.
func (c *call) links(part []map[string]any, before, after bool) (links []map[string]string) {
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

// maxBulk is how many objects one request may create. They are created in one transaction.
const maxBulk = 1000

// objects reads a body with one object, or with a list of them under the key col.many, such as {"networks": [{…}]}.
// bulk reports whether it is a list.
func (col collection) objects(c *call) (list []*edge.Object, bulk bool, err error) {
	var outer map[string]json.RawMessage
	if err := c.ReadJSON(maxBody, &outer); err != nil {
		return nil, false, err
	}
	all := make([]map[string]json.RawMessage, 1)
	if bulk = outer[col.many] != nil && outer[col.one] == nil; bulk {
		err = json.Unmarshal(outer[col.many], &all)
	} else if outer[col.one] != nil {
		err = json.Unmarshal(outer[col.one], &all[0])
	}
	if err == nil && len(all) > maxBulk {
		return nil, true, fault.New(fault.Invalid, "'%s' has %d elements; a request can create at most %d", col.many,
			len(all), maxBulk)
	}
	for _, keys := range all {
		list = append(list, c.NewObject(col.one, keys))
	}
	if err != nil || len(all) == 0 ||
		slices.ContainsFunc(all, func(keys map[string]json.RawMessage) bool { return keys == nil }) {
		return nil, bulk, c.NoObject(col.one)
	}
	return list, bulk, nil
}

// handleCreate creates one object or, with a list, all of them or none.
func (col collection) handleCreate(c *call) error {
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
	err = c.service.ops.Store.Together(request.Context(), func(ctx context.Context) error {
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
		rest.WriteJSON(c.W, http.StatusCreated, map[string]any{col.many: views})
	}
	return err
}

// createOne creates an object if the policy allows it.
func (col collection) createOne(c *call, o *edge.Object) (document, error) {
	target, err := col.draft(c, o)
	if err != nil {
		return document{}, err
	}
	if err := col.authorize(c, "create_"+col.rule, o, target); err != nil {
		return document{}, err
	}
	return col.create(c, o)
}

// authorize checks the rule of an operation, that of each attribute that the request has, and what the resource checks.
func (col collection) authorize(c *call, rule string, o *edge.Object, target map[string]any) error {
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
	if col.check == nil {
		return nil
	}
	return col.check(c, rule, o, target)
}

func (col collection) handleUpdate(c *call) error {
	id := c.R.PathValue("id")
	o, _, err := c.Object(col.one)
	if err != nil {
		return err
	}
	revision, err := c.revision()
	if err != nil {
		return err
	}
	d, err := col.read(c, id)
	if err != nil {
		return err
	}
	target := d.target
	if owner := ""; o.Copy().Text("device_owner", &owner, 255) {
		target = c.target(edge.TextOf(target["project_id"]), target)
		target["owner_kind"] = ownerKind(owner)
	}
	if err := col.authorize(c, "update_"+col.rule, o, target); err != nil {
		return err
	}
	if d, err = col.update(c, id, revision, o); err != nil {
		return err
	}
	return col.write(c, http.StatusOK, d)
}

// ownerKind returns the part of a device_owner before the colon.
func ownerKind(owner string) string { kind, _, _ := strings.Cut(owner, ":"); return kind }

func (col collection) handleRemove(c *call) error {
	id := c.R.PathValue("id")
	d, err := col.read(c, id)
	if err != nil {
		return err
	}
	if err := c.Authorize("delete_"+col.rule, d.target); err != nil {
		return err
	}
	revision, err := c.revision()
	if err != nil {
		return err
	}
	return c.Done(http.StatusNoContent, col.remove(c, id, revision))
}

// project returns the project of an object to create: that of the request, or that of the caller. Only administrators
// and services create objects of other projects, as in Neutron, whatever the rules say: quotas are those of the
// project. A caller without a project has no objects.
func (c *call) project(o *edge.Object) (string, error) {
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
		return "", fault.New(fault.Invalid, "Specifying 'project_id' or 'tenant_id' other than the authenticated project in "+
			"request requires admin or service privileges")
	case project == "":
		project = c.Who.Project
	}
	return project, o.Err()
}
