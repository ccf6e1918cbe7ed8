package server

import (
	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
)

// route is a path of the API with its methods, and verb is one of them.
type (
	route = edge.Route[*call]
	verb  = edge.Method[*call]
)

// read returns a verb that answers with JSON. rule is given without its prefix `placement:`.
func read(since api.Version, rule string, handle func(*call) error) verb {
	return verb{Spec: edge.Spec{Rule: "placement:" + rule, Since: int(since), Answer: true}, Handle: handle}
}

// write returns a verb whose request has a JSON body. rule is given without its prefix `placement:`.
func write(since api.Version, rule string, handle func(*call) error) verb {
	return verb{Spec: edge.Spec{Rule: "placement:" + rule, Since: int(since), Body: true}, Handle: handle}
}

// plain returns a verb that neither reads nor answers JSON. rule is given without its prefix `placement:`.
func plain(since api.Version, rule string, handle func(*call) error) verb {
	return verb{Spec: edge.Spec{Rule: "placement:" + rule, Since: int(since)}, Handle: handle}
}
