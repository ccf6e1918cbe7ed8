package openapi

import (
	"encoding"
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/openberth/berth/api/placement"
)

// schemas are the schemas of the types that operations use.
type schemas struct {
	comments map[string]string
	done     map[string]*yaml.Node // by name
}

// content returns the content object of a body. value may be nil: any text.
func (s *schemas) content(media string, value any) *yaml.Node {
	schema := object("type", text("string")).node
	if value != nil {
		schema = s.of(reflect.TypeOf(value))
	}
	return object(media, object("schema", schema).node).node
}

// nameOf returns the name of a struct type in the document.
func nameOf(t reflect.Type) string {
	if t.PkgPath() == reflect.TypeFor[hosts]().PkgPath() {
		return t.Name()
	}
	return path.Base(t.PkgPath()) + "." + t.Name()
}

// of returns the schema of a type; of a struct type a reference.
func (s *schemas) of(t reflect.Type) *yaml.Node {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object("type", text("string"), "format", text("date-time")).node
	case t == reflect.TypeFor[json.RawMessage]():
		return object().node // any value
	case t == reflect.TypeFor[placement.Ratio](), t == reflect.TypeFor[*placement.Ratio]():
		return object("type", text("number")).node
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object("type", text("string")).node
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		panic("internal/openapi has no schema for " + t.String())
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		return s.reference(t)
	case reflect.Map:
		return object("type", text("object"), "additionalProperties", s.of(t.Elem())).node
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object("type", text("string"), "contentEncoding", text("base64")).node
		}
		return object("type", text("array"), "items", s.of(t.Elem())).node
	case reflect.String:
		return object("type", text("string")).node
	case reflect.Bool:
		return object("type", text("boolean")).node
	case reflect.Float32, reflect.Float64:
		return object("type", text("number")).node
	case reflect.Interface:
		return object().node
	default:
		return object("type", text("integer")).node
	}
}

// reference describes a struct type and returns a reference to its schema.
func (s *schemas) reference(t reflect.Type) *yaml.Node {
	name := nameOf(t)
	if s.done[name] == nil {
		schema := object("type", text("object"))
		s.done[name] = schema.node // before its fields, which may have the same type
		if comment := s.comments[name]; comment != "" {
			schema.set("description", text(comment))
		}
		required, properties := list(), object()
		s.fields(t, name, required, properties)
		if len(required.Content) > 0 {
			schema.set("required", required)
		}
		schema.set("properties", properties.node)
	}
	return object("$ref", text("#/components/schemas/"+name)).node
}

// fields adds the fields of a struct type to a schema, with those of embedded structs.
func (s *schemas) fields(t reflect.Type, name string, required *yaml.Node, properties *mapping) {
	for field := range reflectFields(t) {
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case key == "-" || !field.IsExported():
			continue
		case field.Anonymous && key == "":
			s.fields(field.Type, nameOf(field.Type), required, properties)
			continue
		case key == "":
			key = field.Name
		}
		property := s.of(field.Type)
		if comment := s.comments[name+"."+field.Name]; comment != "" {
			(&mapping{property}).set("description", text(comment))
		}
		properties.set(key, property)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required.Content = append(required.Content, text(key))
		}
	}
}

// reflectFields yields the fields of a struct type in their order.
func reflectFields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// sorted returns the schemas by name.
func (s *schemas) sorted() *yaml.Node {
	all := object()
	for _, name := range slices.Sorted(maps.Keys(s.done)) {
		all.set(name, s.done[name])
	}
	return all.node
}

// mapping is an object whose keys keep their order.
type mapping struct{ node *yaml.Node }

// object returns an object of keys and values: a string, then a *yaml.Node.
func object(pairs ...any) *mapping {
	m := &mapping{&yaml.Node{Kind: yaml.MappingNode}}
	for i := 0; i < len(pairs); i += 2 {
		m.set(pairs[i].(string), pairs[i+1].(*yaml.Node))
	}
	return m
}

func (m *mapping) set(key string, value *yaml.Node) {
	m.node.Content = append(m.node.Content, text(key), value)
}

// get returns the value of a key; nil: there is none.
func (m *mapping) get(key string) *yaml.Node {
	for i := 0; i < len(m.node.Content); i += 2 {
		if m.node.Content[i].Value == key {
			return m.node.Content[i+1]
		}
	}
	return nil
}

func list(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Content: items}
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func boolean(b bool) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: map[bool]string{true: "true", false: "false"}[b]}
}
