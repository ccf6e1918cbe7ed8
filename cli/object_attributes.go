package cli

import (
	"context"
	"reflect"
	"strings"

	"github.com/openberth/berth/fault"
)

// attributeValue is the type of a flag that is sent in another form than it is written in.
type attributeValue interface{ attribute() (any, error) }

// attributesOf returns the attributes that flags set. A field of the struct has the attribute's name in its tag api,
// and in the tag of the kind of objects that it refers to by id or name. A flag that is not given sets nothing. Of
// several objects with a name that of the project is chosen; empty: that of the flag for the project, if there is one.
func attributesOf(ctx context.Context, g *Globals, flags any, project string) (map[string]any, error) {
	set, v := map[string]any{}, reflect.Indirect(reflect.ValueOf(flags))
	if given := v.FieldByName("Project"); given.IsValid() && project == "" {
		if text, is := given.Interface().(*string); is && text != nil {
			project = *text
		}
	}
	err := addAttributes(ctx, g, v, project, set)
	return set, err
}

func addAttributes(ctx context.Context, g *Globals, v reflect.Value, project string, set map[string]any) error {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name := field.Tag.Get("api")
		if name == "" && field.Type.Kind() == reflect.Struct {
			if err := addAttributes(ctx, g, v.Field(i), project, set); err != nil {
				return err
			}
		}
		if name == "" || v.Field(i).IsZero() {
			continue
		}
		value, err := attributeOf(ctx, g, v.Field(i), field.Tag.Get("of"), project)
		if err != nil {
			return err
		}
		set[name] = value
	}
	return nil
}

// attributeOf returns the value that a flag sends. of is the kind of objects to which it refers; empty: to none.
func attributeOf(ctx context.Context, g *Globals, field reflect.Value, of, project string) (any, error) {
	if own, is := field.Interface().(attributeValue); is {
		return own.attribute()
	}
	value := reflect.Indirect(field).Interface()
	if of == "" {
		return value, nil
	}
	if text, is := value.(string); is {
		return objectID(ctx, g, of, text, project)
	}
	texts, _ := value.([]string)
	ids := []string{}
	for _, text := range texts {
		id, err := objectID(ctx, g, of, text, project)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id.(string))
	}
	return ids, nil
}

// objectID returns the id of an object; nil for none, which removes the reference.
func objectID(ctx context.Context, g *Globals, of, idOrName, project string) (any, error) {
	if idOrName == none {
		return nil, nil
	}
	found, err := kinds[of].findIn(ctx, g, idOrName, project)
	return found.text(kinds[of].id), err
}

// none is the value of a flag that removes what the object has.
const none = "none"

// orNone is a text, or none.
type orNone string

func (o orNone) attribute() (any, error) {
	if o == none {
		return nil, nil
	}
	return string(o), nil
}

// keyed are values of KEY=VALUE,…, each of which becomes an object with the attributes of keys.
type keyed []string

// objects returns the values with the attributes that keys names.
func (k keyed) objects(keys map[string]string) ([]map[string]any, error) {
	all := []map[string]any{}
	for _, text := range k {
		one := map[string]any{}
		for part := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(part, "=")
			if keys[key] == "" || value == "" {
				return nil, fault.New(fault.Invalid, "%q is not valid: write %s=VALUE, or several of them with commas", text,
					strings.Join(sortedKeys(keys), "=VALUE or "))
			}
			one[keys[key]] = value
		}
		all = append(all, one)
	}
	return all, nil
}
