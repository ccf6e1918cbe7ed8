package openapi

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Services are the services that have own paths.
var Services = []string{"placement", "compute", "network", "image"}

// Document returns the OpenAPI document of a service as YAML. comments has the comment of each type and field of the
// contracts: by the name of the type as schemas have it, and by type and field, such as host.Report.Host.
func Document(service string, comments map[string]string) ([]byte, error) {
	types := &schemas{comments: comments, done: map[string]*yaml.Node{}}
	paths := object()
	for _, o := range Operations() {
		if o.Service != service {
			continue
		}
		at := paths.get(o.Path)
		if at == nil {
			at = object().node
			paths.set(o.Path, at)
		}
		(&mapping{at}).set(strings.ToLower(o.Method), types.operation(o))
	}
	doc := object(
		"openapi", text("3.1.0"),
		"info", object("title", text("Berth's own paths of the "+service+" service"), "version", text("1"), "description",
			text("OpenStack describes the other paths of this service. A test writes this file from the types of the "+
				"program.")).node,
		"security", list(object("token", list()).node),
		"paths", paths.node,
		"components", object(
			"securitySchemes", object("token", object("type", text("apiKey"), "in", text("header"), "name",
				text("X-Auth-Token")).node).node,
			"schemas", types.sorted()).node)
	return yaml.Marshal(doc.node)
}

var variable = regexp.MustCompile(`\{([a-z]+)\}`)

// operation returns the operation object of an operation.
func (s *schemas) operation(o Operation) *yaml.Node {
	parameters := list()
	for _, found := range variable.FindAllStringSubmatch(o.Path, -1) {
		parameters.Content = append(parameters.Content, object("name", text(found[1]), "in", text("path"), "required",
			boolean(true), "schema", object("type", text("string")).node).node)
	}
	for _, p := range o.Query {
		one := object("name", text(p.Name), "in", text("query"), "description", text(p.Text))
		if p.Required {
			one.set("required", boolean(true))
		}
		schema := object("type", text("string")).node
		if p.Repeated {
			schema = object("type", text("array"), "items", schema).node
		}
		one.set("schema", schema)
		parameters.Content = append(parameters.Content, one.node)
	}
	who := o.Who
	if o.Rule != "" {
		who = "Policy: `" + o.Rule + "`."
	}
	out := object("summary", text(o.Summary), "description", text(who))
	if len(parameters.Content) > 0 {
		out.set("parameters", parameters)
	}
	if o.Body != nil {
		out.set("requestBody", object("required", boolean(true), "content", s.content("application/json", o.Body)).node)
	}
	responses := object()
	for _, status := range o.Statuses {
		answer := object("description", text("Success."))
		switch {
		case o.Stream != "":
			answer.set("content", s.content(o.Stream, o.Answer))
		case o.Answer != nil:
			answer.set("content", s.content("application/json", o.Answer))
		}
		responses.set(fmt.Sprint(status), answer.node)
	}
	responses.set("default", object("description", text("An error, in the form of the service's own API: what failed, "+
		"why, and what to do.")).node)
	out.set("responses", responses.node)
	return out.node
}
