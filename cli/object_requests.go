package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
)

// The parts in which lists are read, and how many at most.
const (
	partSize = 500
	maxParts = 1000
)

// decode decodes an answer; numbers keep their digits.
func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fault.New(fault.Internal, "the answer is not valid: %w", err)
	}
	return nil
}

// list returns the objects that a query selects.
func (k *kind) list(ctx context.Context, g *Globals, filter url.Values) ([]document, error) {
	query, all := url.Values{}, []document{}
	for name, values := range filter {
		query[name] = values
	}
	if k.paging != "" {
		query.Set("limit", strconv.Itoa(partSize))
	}
	if k.paging == byMarker && strings.HasPrefix(k.path, "/v2.0/") {
		query.Set("sort_key", k.id)
		query.Set("sort_dir", "asc")
	}
	for range maxParts {
		answer, err := k.service(g).Do(ctx, http.MethodGet, k.path+"?"+query.Encode(), nil, nil)
		if err != nil {
			return nil, err
		}
		var body map[string]json.RawMessage
		var part []document
		if err := decode(answer.Body, &body); err != nil {
			return nil, err
		}
		if err := decode(body[k.all], &part); err != nil {
			return nil, err
		}
		for _, one := range part {
			if inner, is := one[k.one].(map[string]any); is && k.wrapped {
				one = inner
			}
			all = append(all, one.inUTC())
		}
		if k.paging == "" || len(part) < partSize {
			return all, nil
		}
		query.Set(string(k.paging), strconv.Itoa(len(all)))
		if k.paging == byMarker {
			query.Set("marker", all[len(all)-1].text(k.id))
		}
	}
	return nil, fault.New(fault.Internal, "the list of %s does not end after %d parts", plural(k.noun), maxParts)
}

// text returns the value of an attribute as it is in paths.
func (d document) text(key string) string {
	if d[key] == nil {
		return ""
	}
	if text, is := d[key].(string); is {
		return text
	}
	return valueText("", d[key])
}

// find returns the object with an id or a name. It returns fault.NotFound, with similar names, if there is none, and
// fault.Conflict if several have the name.
func (k *kind) find(ctx context.Context, g *Globals, idOrName string) (document, error) {
	return k.findIn(ctx, g, idOrName, "")
}

// findIn is find. Of several objects with the name it returns that of a project; empty: of no project.
func (k *kind) findIn(ctx context.Context, g *Globals, idOrName, project string) (document, error) {
	if uuid.Validate(idOrName) == nil || k.id == "name" {
		found, err := k.read(ctx, g, idOrName)
		if !fault.Is(err, fault.NotFound) {
			return found, err
		}
	}
	filter := url.Values{}
	if strings.HasPrefix(k.path, "/v2.0/") {
		filter.Set("name", idOrName)
	}
	all, err := k.list(ctx, g, filter)
	if err != nil {
		return nil, err
	}
	var named, own []document
	var ids, known []string
	for _, one := range all {
		if one.text(k.id) == idOrName {
			return one, nil
		}
		if one.text("name") == idOrName {
			named, ids = append(named, one), append(ids, one.text(k.id)+ofProject(one))
			if project != "" && one.text("project_id") == project {
				own = append(own, one)
			}
		}
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(own) == 1:
		return own[0], nil
	case len(named) > 1:
		return nil, severalNames(k.noun, idOrName, ids)
	case len(filter) > 0:
		if all, err = k.list(ctx, g, nil); err != nil {
			return nil, err
		}
	}
	for _, one := range all {
		known = append(known, one.text("name"))
	}
	return nil, unknownName(k.noun, idOrName, known, k.command)
}

// ofProject returns the project of an object in parentheses; empty if it has none.
func ofProject(d document) string {
	if project := d.text("project_id"); project != "" {
		return " (project " + project + ")"
	}
	return ""
}

// idOf returns the id of the object with an id or a name.
func (k *kind) idOf(ctx context.Context, g *Globals, idOrName string) (string, error) {
	found, err := k.find(ctx, g, idOrName)
	return found.text(k.id), err
}

// read returns the object with an id.
func (k *kind) read(ctx context.Context, g *Globals, id string) (document, error) {
	return k.send(ctx, g, http.MethodGet, k.pathOf(id), nil)
}

// create creates an object.
func (k *kind) create(ctx context.Context, g *Globals, attributes map[string]any) (document, error) {
	return k.send(ctx, g, http.MethodPost, k.path, map[string]any{k.one: attributes})
}

// change changes attributes of an object; the others stay.
func (k *kind) change(ctx context.Context, g *Globals, id string, attributes map[string]any) (document, error) {
	return k.send(ctx, g, k.updates(), k.pathOf(id), map[string]any{k.one: attributes})
}

// remove deletes an object.
func (k *kind) remove(ctx context.Context, g *Globals, id string) error {
	_, err := k.service(g).Do(ctx, http.MethodDelete, k.pathOf(id), nil, nil)
	return err
}

// send sends a request and returns the object of its answer.
func (k *kind) send(ctx context.Context, g *Globals, method, path string, body any) (document, error) {
	answer, err := k.service(g).Do(ctx, method, path, body, nil)
	if err != nil {
		return nil, err
	}
	var outer map[string]document
	if err := decode(answer.Body, &outer); err != nil {
		return nil, err
	}
	return outer[k.one].inUTC(), nil
}

// namesFor returns the names of the objects to which attributes of a kind refer, by id. An object that the caller does
// not see is left out.
func (k *kind) namesFor(ctx context.Context, g *Globals) names {
	known := names{}
	for _, noun := range k.names {
		all, err := kinds[noun].list(ctx, g, nil)
		if err != nil {
			continue
		}
		for _, one := range all {
			known[one.text("id")] = one.text("name")
		}
	}
	return known
}

// withNames returns a copy of an object in which ids are names.
func (k *kind) withNames(d document, known names) document {
	out := document{}
	for key, value := range d {
		if _, is := k.names[key]; is {
			switch v := value.(type) {
			case string:
				value = known.of(v)
			case []any:
				list := make([]any, 0, len(v))
				for _, one := range v {
					id, _ := one.(string)
					list = append(list, known.of(id))
				}
				value = list
			}
		}
		out[key] = value
	}
	return out
}
