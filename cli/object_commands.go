package cli

import (
	"context"
	"errors"

	"github.com/openberth/berth/fault"
)

// ofKind is a type whose zero value returns the kind of the objects of a command.
type ofKind interface{ kind() *kind }

// listOfKind lists objects.
type listOfKind[K ofKind] struct{ LongOutput }

// Run prints the objects.
func (c *listOfKind[K]) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	var k K
	all, err := k.kind().list(ctx, g, nil)
	if err != nil {
		return err
	}
	known := names{}
	if g.Output != "json" && !c.Long {
		known = k.kind().namesFor(ctx, g)
	}
	return printObjects(g, k.kind(), all, known, c.Long)
}

// printObjects prints objects with names instead of ids in the table.
func printObjects(g *Globals, k *kind, all []document, known names, long bool) error {
	columns := make([]column[document], 0, len(k.columns))
	for _, c := range k.columns {
		text := c.text
		c.text = func(d document) string { return text(k.withNames(d, known)) }
		columns = append(columns, c)
	}
	order := "Name"
	if _, err := columnNamed(headerOf(columns), order); err != nil {
		order = columns[0].name
	}
	return printList(g, all, order, long, columns)
}

// showOfKind shows an object.
type showOfKind[K ofKind] struct {
	Name string `arg:"" name:"name-or-id" help:"Name or id."`
}

// Run prints the object.
func (c *showOfKind[K]) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	var k K
	found, err := k.kind().find(ctx, g, c.Name)
	if err == nil && k.kind().id != "name" { // a list may leave attributes out
		found, err = k.kind().read(ctx, g, found.text(k.kind().id))
	}
	if err != nil {
		return err
	}
	return printObject(g, found)
}

// printObject prints one object.
func printObject(g *Globals, d document) error {
	return g.print(d, []string{"Field", "Value"}, d.fields())
}

// completed are flags from which more attributes follow than each of them sets.
type completed interface {
	complete(ctx context.Context, g *Globals, set map[string]any) error
}

// createOfKind creates an object with the attributes A.
type createOfKind[K ofKind, A any] struct {
	Name       string `arg:"" help:"Name."`
	Attributes A      `embed:""`
}

// Run creates the object and prints it.
func (c *createOfKind[K, A]) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	attributes, err := attributesOf(ctx, g, &c.Attributes, "")
	if err != nil {
		return err
	}
	attributes["name"] = c.Name
	if own, is := any(&c.Attributes).(completed); is {
		if err := own.complete(ctx, g, attributes); err != nil {
			return err
		}
	}
	var k K
	made, err := k.kind().create(ctx, g, attributes)
	if err != nil {
		return err
	}
	return printObject(g, made)
}

// setOfKind changes the attributes A of an object.
type setOfKind[K ofKind, A any] struct {
	Object     string  `arg:"" name:"name-or-id" help:"Name or id."`
	NewName    *string `name:"name" help:"New name." api:"name" placeholder:"NAME"`
	Attributes A       `embed:""`
}

// Run changes the object and prints it.
func (c *setOfKind[K, A]) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	var k K
	found, err := k.kind().find(ctx, g, c.Object)
	if err != nil {
		return err
	}
	attributes, err := attributesOf(ctx, g, &c.Attributes, found.text("project_id"))
	if err != nil {
		return err
	}
	if c.NewName != nil {
		attributes["name"] = *c.NewName
	}
	if own, is := any(&c.Attributes).(completed); is {
		if err := own.complete(ctx, g, attributes); err != nil {
			return err
		}
	}
	if len(attributes) == 0 {
		return fault.New(fault.Invalid, "nothing to change: give a flag; --help shows them")
	}
	changed, err := k.kind().change(ctx, g, found.text(k.kind().id), attributes)
	if err != nil {
		return err
	}
	return printObject(g, changed)
}

// deleteOfKind deletes objects.
type deleteOfKind[K ofKind] struct {
	Names []string `arg:"" name:"name-or-id" help:"Names or ids."`
}

// objectResult is the result of a command for one of its objects.
type objectResult struct {
	Object string `json:"object"` // as the user named it
	ID     string `json:"id,omitempty"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// Run deletes each object, also after failures, and prints the results.
func (c *deleteOfKind[K]) Run(g *Globals) error {
	var k K
	return deleteEach(g, k.kind(), c.Names)
}

// deleteEach deletes objects by id or name.
func deleteEach(g *Globals, k *kind, objects []string) error {
	return removeEach(g, plural(k.noun), objects, func(ctx context.Context, name string) (string, error) {
		id, err := k.idOf(ctx, g, name)
		if err == nil {
			err = k.remove(ctx, g, id)
		}
		return id, err
	})
}

// removeEach removes objects, also after failures, and prints the results. remove returns the id of an object.
func removeEach(g *Globals, nouns string, objects []string,
	remove func(ctx context.Context, name string) (id string, err error)) error {
	return eachObject(g, nouns, objects, "deleted", remove)
}

// eachObject does something with each object, also after failures, and prints the results. do returns an id.
func eachObject(g *Globals, nouns string, objects []string, done string,
	do func(ctx context.Context, name string) (id string, err error)) error {
	ctx, cancel := g.context()
	defer cancel()
	results, rows, failed := []objectResult{}, [][]string{}, []error(nil)
	for _, name := range objects {
		r := objectResult{Object: name, Result: done}
		var err error
		if r.ID, err = do(ctx, name); err != nil {
			r.Result, r.Error = "failed", fault.TextOf(err)
			failed = append(failed, of(name, len(objects), err))
		}
		results = append(results, r)
		rows = append(rows, []string{name, dash(r.ID), r.Result})
	}
	printed := g.print(results, []string{"Name", "ID", "Result"}, rows)
	return errors.Join(printed, several(len(objects), nouns, failed))
}
